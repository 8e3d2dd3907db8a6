# cmake -D from=FOLDER -D to=FOLDER -P: the package's files that are no binaries.  Those that are there
# already are left alone.
file(COPY ${from}/ DESTINATION ${to} FILES_MATCHING
  PATTERN "*.py" PATTERN "*.pyi" PATTERN "py.typed" PATTERN "_tools/html/templates/*"
  # What `pip install -e` puts into the sources.
  PATTERN "_debuggers" EXCLUDE PATTERN "libstacksplice.so*" EXCLUDE PATTERN "__pycache__" EXCLUDE)
