//! Trace formats of seeklab: reading, writing, guessing.
