std = "lua54"
files["tests/lua/spec"] = {std = "+busted", max_line_length = false} -- tables of chunks, one a line
files["tests/lua/spec/traceback_spec.lua"].ignore = {"113", "221", "512", "531", "532"} -- every shape of code
files["tests/lua/failing"].std = "+busted"
files["bindings/lua/library"].max_line_length = false -- an annotation is one line
files["bench"].read_globals = {"row"}
files["tests/matrix/steps.lua"].globals = {"left"}

-- Code of every shape, run for the stacks that it has; the program gives it its functions.
local shapes = {
    globals = {"scenario"},
    ignore = {"1..", "2..", "3..", "4..", "512", "542", "581"},
}
files["tests/lua/scenarios.lua"], files["tests/lua/random_calls.lua"] = shapes, shapes
