"""A scan as one sitting."""
