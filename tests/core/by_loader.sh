#!/bin/sh
# Runs the program $1 as an argument of its own loader.
set -eu
loader=$(readelf -lW "$1" | sed -n 's/.*program interpreter: \(.*\)\]$/\1/p')
exec "$loader" "$1"
