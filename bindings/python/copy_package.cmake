# cmake -D from=FOLDER -D to=FOLDER -P: the package's files that are no binaries.  Those that are there
# already are left alone.
file(COPY ${from}/ DESTINATION ${to} FILES_MATCHING
  PATTERN "*.py" PATTERN "*.pyi" PATTERN "py.typed" PATTERN "_tools/html/templates/*"
  # What `pip install -e` puts into the sources.
  PATTERN "_debuggers" EXCLUDE PATTERN "libstacksplice.so*" EXCLUDE PATTERN "__pycache__" EXCLUDE)
# What the sources no longer have must not be imported from here.
file(GLOB_RECURSE there RELATIVE ${to} ${to}/*.py ${to}/*.pyi ${to}/*.j2 ${to}/*.css ${to}/*.js ${to}/*.html)
list(FILTER there EXCLUDE REGEX "^(_debuggers/|libstacksplice)")
foreach(file IN LISTS there)
  if(NOT EXISTS ${from}/${file})
    file(REMOVE ${to}/${file})
  endif()
endforeach()
