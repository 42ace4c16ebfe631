"""Analysis: computes plain values from records, without input or output."""
