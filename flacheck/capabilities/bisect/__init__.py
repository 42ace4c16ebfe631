"""The releases between which a cell's verdict or signature changes."""
