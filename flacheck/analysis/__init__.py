"""Analysis: records in, plain values out; nothing here reads, writes or prints."""
