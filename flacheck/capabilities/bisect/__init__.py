"""Where a cell's verdict or signature changes over the releases of its compiler."""
