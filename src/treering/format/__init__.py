"""What the bytes mean: keys, records, values, frames, registers, segments and blobs. Pure: no I/O, clock or chance."""
