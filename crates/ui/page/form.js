"use strict";
// A form that is made from a JSON schema: every key that the schema declares is a field, with its description, range and
// default. It edits a value in place and tells of each change. Text enters the page as text nodes only.
const seeklabForm = (() => {
  const { block } = seeklabCharts;

  // The schema itself, and every form of a value that is written in several.
  const forms = (schema) => [schema, ...(schema.anyOf ?? []).flatMap(forms)];
  const find = (schema, key) => forms(schema).map((form) => form[key]).find((found) => found !== undefined);
  const types = (schema) => forms(schema).flatMap((form) => form.type ?? []).flat();
  const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);

  function choices(schema) {
    const variants = forms(schema).flatMap((form) => form.oneOf ?? []);
    return [...variants.map((variant) => [variant.const, variant.description]), ...(find(schema, "enum") ?? []).map((name) => [name])]
      .filter(([name]) => typeof name === "string");
  }

  function kind(schema) {
    if (choices(schema).length) return "choice";
    const has = types(schema);
    if (has.includes("array")) return find(find(schema, "items") ?? {}, "properties") ? "list" : "texts";
    if (find(schema, "properties")) return "table";
    if (isObject(find(schema, "additionalProperties")) && !has.includes("string")) {
      return find(find(schema, "additionalProperties"), "properties") ? "named" : "pairs";
    }
    if (has.includes("boolean")) return "flag";
    if (has.includes("integer") || has.includes("number")) return "number";
    return "text";
  }
  const isField = (schema) => ["choice", "flag", "number", "text"].includes(kind(schema));

  // A new entry: its required keys, with the examples of the schema.
  function blank(schema) {
    const required = find(schema, "required") ?? [];
    const properties = find(schema, "properties") ?? {};
    return Object.fromEntries(required.map((key) => [key, find(properties[key], "examples")?.[0] ?? ""]));
  }

  // The value with its keys in the order of the schema; keys that it does not declare come last.
  function ordered(schema, value) {
    if (Array.isArray(value)) return value.map((entry) => ordered(find(schema, "items") ?? {}, entry));
    if (!isObject(value)) return value;
    const properties = find(schema, "properties") ?? {};
    const entries = find(schema, "additionalProperties");
    const keys = [...Object.keys(properties).filter((key) => key in value), ...Object.keys(value).filter((key) => !(key in properties))];
    return Object.fromEntries(keys.map((key) => [key, ordered(properties[key] ?? (isObject(entries) ? entries : {}), value[key])]));
  }

  function range(schema) {
    const [min, max, unit] = ["minimum", "maximum", "x-unit"].map((key) => find(schema, key));
    const least = find(schema, "x-minimum");
    if (least !== undefined) return `At least ${least}.`;
    if (max !== undefined) return `${min ?? 0} to ${max}${unit ? ` ${unit}` : ""}.`;
    return "";
  }

  function placeholder(schema) {
    const value = find(schema, "default");
    if (value !== undefined && !isObject(value)) return String(value);
    const example = find(schema, "examples")?.[0];
    return example === undefined ? "" : `e.g. ${example}`;
  }

  // Text whose words in backticks are code.
  function prose(place, text) {
    place.replaceChildren();
    text.split("`").forEach((part, index) => {
      if (index % 2) block(place, "code", "", part);
      else place.append(part);
    });
  }

  class Form {
    constructor(place, schema, changed) {
      Object.assign(this, { place, schema, changed, open: new Set(), value: {} });
    }

    // Shows a value, unless it is what the form has.
    show(value) {
      if (JSON.stringify(ordered(this.schema, this.value)) === JSON.stringify(ordered(this.schema, value))) return;
      this.value = value;
      this.build();
    }

    get plan() {
      return ordered(this.schema, this.value);
    }

    build() {
      this.place.replaceChildren();
      this.table(this.place, this.schema, this.value, "");
    }

    // A change of the structure: other fields are needed.
    restructure() {
      this.build();
      this.changed();
    }

    table(parent, schema, value, path) {
      const properties = Object.entries(find(schema, "properties") ?? {});
      const required = find(schema, "required") ?? [];
      const fields = properties.filter(([, property]) => isField(property));
      const shown = fields.filter(([key], index) => index < 3 || required.includes(key) || value[key] !== undefined);
      const others = fields.filter((field) => !shown.includes(field));
      const grid = block(parent, "div", "fields");
      for (const [key, property] of shown) this.field(grid, key, property, value, path, required.includes(key));
      if (others.length) {
        const more = this.details(parent, `${path}+`, `${others.length} more keys`);
        const rest = block(more, "div", "fields");
        for (const [key, property] of others) this.field(rest, key, property, value, path, false);
      }
      for (const [key, property] of properties.filter(([, one]) => !isField(one))) {
        const at = path ? `${path}.${key}` : key;
        const of = { list: "list", texts: "texts", named: "named", pairs: "pairs", table: "inner" }[kind(property)];
        this[of](parent, key, property, value, at);
      }
    }

    details(parent, path, title) {
      const details = block(parent, "details");
      details.open = this.open.has(path);
      details.addEventListener("toggle", () => (details.open ? this.open.add(path) : this.open.delete(path)));
      block(details, "summary", "", title);
      return details;
    }

    field(parent, key, schema, holder, path, isRequired) {
      const label = block(parent, "label", "field");
      block(label, "span", "key", key + (isRequired ? " *" : ""));
      const value = holder[key];
      const what = kind(schema);
      let input;
      if (what === "choice") {
        input = block(label, "select");
        block(input, "option", "", `[${find(schema, "default") ?? "none"}]`).value = "";
        for (const [name] of choices(schema)) block(input, "option", "", name).value = name;
        input.value = value ?? "";
      } else {
        input = block(label, "input");
        input.type = { flag: "checkbox", number: "number" }[what] ?? "text";
        if (what === "flag") input.checked = value === true;
        else if (value !== undefined) input.value = isObject(value) ? JSON.stringify(value) : value;
        input.placeholder = placeholder(schema);
        input.spellcheck = false;
        input.autocomplete = "off";
        if (what === "number") {
          const [min, max] = [find(schema, "minimum"), find(schema, "maximum")];
          if (min !== undefined) input.min = min;
          if (max !== undefined) input.max = max;
        }
        // A table in place of a text is written as TOML.
        if (isObject(value)) input.readOnly = true;
      }
      const isLong = find(schema, "examples")?.some((example) => String(example).length > 24);
      if (isLong) label.classList.add("wide");
      input.name = path ? `${path}.${key}` : key;
      const chosen = () => choices(schema).find(([name]) => name === input.value)?.[1];
      const about = block(label, "small", "");
      const explain = () => {
        prose(about, [schema.description, range(schema), chosen()].filter(Boolean).join(" "));
      };
      explain();
      input.addEventListener("input", () => {
        if (what === "flag") {
          if (input.checked) holder[key] = true;
          else delete holder[key];
        } else if (input.value.trim() === "") delete holder[key];
        else holder[key] = what === "number" && Number.isSafeInteger(Number(input.value)) ? Number(input.value) : input.value;
        explain();
        this.changed();
      });
    }

    frame(parent, title, schema) {
      const frame = block(parent, "fieldset");
      const legend = block(frame, "legend", "", title);
      if (schema.description) prose(block(frame, "small"), schema.description);
      return { frame, legend };
    }

    button(parent, text, name, act) {
      const button = block(parent, "button", "small", text);
      button.type = "button";
      button.name = name;
      button.addEventListener("click", () => {
        act();
        this.restructure();
      });
      return button;
    }

    // A list of tables.
    list(parent, key, schema, holder, path) {
      const items = find(schema, "items") ?? {};
      const entries = Array.isArray(holder[key]) ? holder[key] : [];
      const isUsed = entries.length > 0 || (find(schema, "minItems") ?? 0) > 0 || path.includes("[");
      const { frame } = isUsed ? this.frame(parent, key, schema) : { frame: this.details(parent, path, `${key}: none`) };
      if (!isUsed) prose(block(frame, "small"), schema.description);
      entries.forEach((entry, index) => {
        const at = `${path}[${index}]`;
        const part = block(frame, "fieldset");
        const legend = block(part, "legend", "", `${key.replace(/s$/, "")} ${entry.name ?? index + 1}`);
        this.button(legend, "remove", `${at}-remove`, () => {
          entries.splice(index, 1);
          if (!entries.length) delete holder[key];
        });
        this.table(part, items, entry, at);
      });
      const add = this.button(frame, `add to ${key}`, `${path}-add`, () => {
        holder[key] = [...entries, blank(items)];
      });
      add.classList.add("add");
    }

    // A list of texts, each in a field of its own.
    texts(parent, key, schema, holder, path) {
      const items = find(schema, "items") ?? {};
      const texts = Array.isArray(holder[key]) ? holder[key] : [];
      const frame = this.details(parent, path, `${key}: ${texts.length || "none"}`);
      if (texts.length) frame.open = true;
      prose(block(frame, "small"), schema.description);
      texts.forEach((text, index) => {
        const row = block(frame, "div", "pair");
        const input = block(row, choices(items).length ? "select" : "input");
        for (const [name] of choices(items)) block(input, "option", "", name).value = name;
        input.name = `${path}[${index}]`;
        input.value = text;
        input.placeholder = schema["x-example"] ? `e.g. ${schema["x-example"]}` : "";
        input.addEventListener("input", () => {
          texts[index] = input.value;
          this.changed();
        });
        this.button(row, "remove", `${path}[${index}]-remove`, () => {
          texts.splice(index, 1);
          if (!texts.length) delete holder[key];
        });
      });
      const add = this.button(frame, `add to ${key}`, `${path}-add`, () => {
        holder[key] = [...texts, choices(items)[0]?.[0] ?? schema["x-example"] ?? ""];
      });
      add.classList.add("add");
    }

    // Tables whose keys are names that the author chooses.
    named(parent, key, schema, holder, path) {
      const entry = find(schema, "additionalProperties");
      const tables = isObject(holder[key]) ? holder[key] : {};
      const names = Object.keys(tables);
      const { frame } = names.length ? this.frame(parent, key, schema) : { frame: this.details(parent, path, `${key}: none`) };
      if (!names.length) prose(block(frame, "small"), schema.description);
      for (const name of names) {
        const part = block(frame, "fieldset");
        const legend = block(part, "legend", "", `${key.replace(/s$/, "")} ${name}`);
        this.button(legend, "remove", `${path}.${name}-remove`, () => {
          delete tables[name];
          if (!Object.keys(tables).length) delete holder[key];
        });
        this.table(part, entry, tables[name], `${path}.${name}`);
      }
      const row = block(frame, "div", "pair add");
      const input = block(row, "input");
      input.placeholder = "name";
      input.name = `${path}-name`;
      this.button(row, `add to ${key}`, `${path}-add`, () => {
        const name = input.value.trim();
        if (name && !(name in tables)) holder[key] = { ...tables, [name]: blank(entry) };
      });
    }

    // Texts whose keys are names that the author chooses.
    pairs(parent, key, schema, holder, path) {
      const texts = isObject(holder[key]) ? holder[key] : {};
      const names = Object.keys(texts);
      const frame = this.details(parent, path, `${key}: ${names.length || "none"}`);
      if (names.length) frame.open = true;
      prose(block(frame, "small"), schema.description);
      for (const name of names) {
        const row = block(frame, "div", "pair");
        block(row, "span", "key", name);
        const input = block(row, "input");
        input.name = `${path}.${name}`;
        input.value = texts[name];
        input.addEventListener("input", () => {
          texts[name] = input.value;
          this.changed();
        });
        this.button(row, "remove", `${path}.${name}-remove`, () => {
          delete texts[name];
          if (!Object.keys(texts).length) delete holder[key];
        });
      }
      const row = block(frame, "div", "pair");
      const [name, value] = ["name", "value"].map((part) => {
        const input = block(row, "input");
        input.placeholder = part;
        input.name = `${path}-${part}`;
        return input;
      });
      this.button(row, "add", `${path}-add`, () => {
        if (name.value.trim()) holder[key] = { ...texts, [name.value.trim()]: value.value };
      });
    }

    // A table in a table.
    inner(parent, key, schema, holder, path) {
      const { frame } = this.frame(parent, key, schema);
      holder[key] = isObject(holder[key]) ? holder[key] : {};
      this.table(frame, schema, holder[key], path);
    }
  }

  return { Form };
})();
