"""Measurements on GPUs as evidence: results and times of launches under several releases."""
