"""An environment: do torch, Triton, driver and packages belong together, and what fails here."""
