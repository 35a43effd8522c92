//! Terminal summaries and HTML reports of seeklab.
