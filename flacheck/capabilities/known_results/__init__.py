"""Published results of a package: releases against failing kernels, good pairs, pins."""
