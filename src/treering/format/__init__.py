"""The stored formats: keys, records, values, frames, registers, segments and blobs. No I/O, clock or randomness."""
