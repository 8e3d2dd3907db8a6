# Tests of the walk and of the splice.  Included by CMakeLists.txt.

# Parts of the core that no public function shows are tested from inside: the same sources once
# more, as an archive with everything visible.
get_target_property(core_sources stacksplice SOURCES)
list(FILTER core_sources INCLUDE REGEX "^src/(base|com|unwind|plan|splice)/")
list(TRANSFORM core_sources PREPEND ${PROJECT_SOURCE_DIR}/core/)
add_library(stacksplice_inside STATIC ${core_sources})
target_link_libraries(stacksplice_inside PRIVATE stacksplice_flags PUBLIC Threads::Threads)
target_compile_definitions(stacksplice_inside
  PUBLIC STACKSPLICE_BUILD_CORE ${STACKSPLICE_UNWIND_DEFINITION})
target_include_directories(stacksplice_inside
  PUBLIC ${PROJECT_SOURCE_DIR}/core/include ${PROJECT_SOURCE_DIR}/core/src)
function(stacksplice_add_inside_test name)
  add_executable(${name} ${ARGN})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests/core)
  target_link_libraries(${name} PRIVATE stacksplice_inside stacksplice_flags test_support
    ${CMAKE_DL_LIBS})
  stacksplice_run_test(${name} ${name})
endfunction()

stacksplice_add_inside_test(symbol_test symbol_test.c)
stacksplice_add_inside_test(splice_merge_test splice_merge_test.c)
stacksplice_add_inside_test(token_test token_test.c)
stacksplice_add_inside_test(token_flood_test token_flood_test.c)
stacksplice_add_inside_test(loader_test loader_test.c)
stacksplice_add_inside_test(lock_test lock_test.c)
if(NOT STACKSPLICE_UNWIND_DEFINITION)
  stacksplice_add_test(unwind_none_test unwind_none_test.c)
  return()
endif()

# The same work, compiled in several ways.
function(add_workload variant)
  add_library(unwind_workload_${variant} OBJECT unwind_workload.c)
  target_link_libraries(unwind_workload_${variant} PRIVATE stacksplice_flags)
  target_compile_options(unwind_workload_${variant} PRIVATE ${ARGN})
  if(NOT variant STREQUAL "plain")
    target_compile_definitions(unwind_workload_${variant} PRIVATE
      workload_run=workload_run_${variant} workload_run_plain=workload_run_plain_${variant})
  endif()
endfunction()
add_workload(plain -O2 -fomit-frame-pointer)
add_workload(frame_pointer -O2 -fno-omit-frame-pointer)
add_workload(unoptimised -O0)
add_library(unwind_workload_library MODULE unwind_workload.c)
target_link_libraries(unwind_workload_library PRIVATE stacksplice_flags)
target_compile_options(unwind_workload_library PRIVATE -O2)
foreach(size small large)
  add_library(unwind_turn_${size} MODULE unwind_turn_library.c)
  target_link_libraries(unwind_turn_${size} PRIVATE stacksplice_flags)
  target_compile_options(unwind_turn_${size} PRIVATE -O2 -fomit-frame-pointer)
endforeach()
target_compile_definitions(unwind_turn_small PRIVATE TURN_BYTES=200)
target_compile_definitions(unwind_turn_large PRIVATE TURN_BYTES=2000)
stacksplice_add_test(unwind_test unwind_test.c unwind_probe.c
  $<TARGET_OBJECTS:unwind_workload_plain> $<TARGET_OBJECTS:unwind_workload_frame_pointer>
  $<TARGET_OBJECTS:unwind_workload_unoptimised>)
target_link_libraries(unwind_test PRIVATE ${CMAKE_DL_LIBS} Threads::Threads)
target_compile_definitions(unwind_test PRIVATE
  WORKLOAD_LIBRARY="$<TARGET_FILE:unwind_workload_library>"
  TURN_SMALL="$<TARGET_FILE:unwind_turn_small>" TURN_LARGE="$<TARGET_FILE:unwind_turn_large>")
add_dependencies(unwind_test unwind_workload_library unwind_turn_small unwind_turn_large)

# Code without unwind data, so without our flags, and without sanitizers, whose calls need the data.
function(add_without_data name)
  add_library(unwind_${name} OBJECT unwind_without_data_code.c)
  target_compile_definitions(unwind_${name} PRIVATE WITHOUT_DATA=${name})
  target_compile_options(unwind_${name} PRIVATE -O1 -fno-sanitize=all -fno-exceptions
    -fno-unwind-tables -fno-asynchronous-unwind-tables -fno-optimize-sibling-calls ${ARGN})
endfunction()
add_without_data(with_frame_pointer -fno-omit-frame-pointer)
add_without_data(without_frame_pointer -fomit-frame-pointer)
# An exported function: the symbols of the module tell where it begins.
add_without_data(exported_without_data -fomit-frame-pointer -fPIC -fvisibility=default)
add_library(unwind_without_data_library SHARED $<TARGET_OBJECTS:unwind_exported_without_data>)
stacksplice_add_test(unwind_without_data_test unwind_without_data_test.c
  $<TARGET_OBJECTS:unwind_with_frame_pointer> $<TARGET_OBJECTS:unwind_without_frame_pointer>)

target_link_libraries(unwind_without_data_test PRIVATE unwind_without_data_library)

# Out of what the C library calls, also while it opens a library.
add_library(unwind_calling MODULE unwind_calling_library.c)
target_link_libraries(unwind_calling PRIVATE stacksplice_flags)
stacksplice_add_test(unwind_callback_test unwind_callback_test.c)
target_compile_definitions(unwind_callback_test PRIVATE
  CALLING_LIBRARY="$<TARGET_FILE:unwind_calling>")
target_link_libraries(unwind_callback_test PRIVATE ${CMAKE_DL_LIBS} Threads::Threads)
set_target_properties(unwind_callback_test PROPERTIES ENABLE_EXPORTS ON)
add_dependencies(unwind_callback_test unwind_calling)

foreach(part memory unloads)
  stacksplice_add_inside_test(unwind_${part}_test unwind_${part}_test.c)
endforeach()
target_compile_definitions(unwind_unloads_test PRIVATE
  TURN_SMALL="$<TARGET_FILE:unwind_turn_small>")
add_dependencies(unwind_unloads_test unwind_turn_small)
stacksplice_add_inside_test(loader_unload_test loader_unload_test.c)
target_compile_definitions(loader_unload_test PRIVATE
  TURN_LIBRARY="$<TARGET_FILE:unwind_turn_small>")
add_dependencies(loader_unload_test unwind_turn_small)
stacksplice_add_inside_test(host_stacks_test host_stacks_test.c)
stacksplice_add_test(unwind_loader_test unwind_loader_test.c)
target_compile_definitions(unwind_loader_test PRIVATE
  FIRST_LIBRARY="$<TARGET_FILE:unwind_turn_small>"
  SECOND_LIBRARY="$<TARGET_FILE:resolve_stripped>")
target_link_libraries(unwind_loader_test PRIVATE ${CMAKE_DL_LIBS} Threads::Threads)
add_dependencies(unwind_loader_test unwind_turn_small resolve_stripped)
stacksplice_add_test(unwind_fork_test unwind_fork_test.c)
target_compile_definitions(unwind_fork_test PRIVATE TURN_LIBRARY="$<TARGET_FILE:unwind_turn_small>")
target_link_libraries(unwind_fork_test PRIVATE ${CMAKE_DL_LIBS} Threads::Threads)
add_dependencies(unwind_fork_test unwind_turn_small)
if(STACKSPLICE_HAVE_GLIBC)
  # What ./dev test iterate loads before the programs.
  add_library(older_c_library MODULE older_c_library.c)
  target_compile_options(older_c_library PRIVATE -O2 -foptimize-sibling-calls)
  target_link_libraries(older_c_library PRIVATE stacksplice_flags ${CMAKE_DL_LIBS})
endif()
stacksplice_add_test(unwind_deep_test unwind_deep_test.c)
target_link_libraries(unwind_deep_test PRIVATE Threads::Threads)
stacksplice_add_inside_test(unwind_rows_test unwind_rows_test.c)
target_compile_definitions(unwind_rows_test PRIVATE
  STACKSPLICE_LIBRARY="$<TARGET_FILE:stacksplice>")
add_dependencies(unwind_rows_test stacksplice)
stacksplice_add_inside_test(unwind_broken_test unwind_broken_test.c)
stacksplice_add_inside_test(unwind_code_test unwind_code_test.c)
if(CMAKE_CROSSCOMPILING_EMULATOR) # which takes its time
  target_compile_definitions(unwind_broken_test PRIVATE GARBAGE_ROUNDS=300)
endif()

# The start of other C libraries has no unwind data: each stack ends in a gap, so none is repeated.
if(CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64" AND STACKSPLICE_HAVE_GLIBC)
  stacksplice_add_test(plan_test plan_test.c)
  target_compile_definitions(plan_test PRIVATE TURN_LIBRARY="$<TARGET_FILE:unwind_turn_small>")
  target_link_libraries(plan_test PRIVATE ${CMAKE_DL_LIBS} Threads::Threads)
  add_dependencies(plan_test unwind_turn_small)
endif()

stacksplice_add_test(source_mark_test source_mark_test.c)
target_link_libraries(source_mark_test PRIVATE Threads::Threads)
stacksplice_add_test(first_signal_test first_signal_test.c)
target_link_libraries(first_signal_test PRIVATE Threads::Threads)
stacksplice_run_test(first_signal_keys_test first_signal_test)
set_tests_properties(first_signal_keys_test PROPERTIES ENVIRONMENT MANY_KEYS=1)
stacksplice_add_test(capture_signal_test capture_signal_test.c failing_allocator.c)
if(STACKSPLICE_HAVE_GLIBC AND CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64")
  stacksplice_add_test(unwind_switch_test unwind_switch_test.c) # makecontext and the trap flag
  stacksplice_add_test(unwind_kept_test unwind_kept_test.c unwind_probe.c) # the trap flag
endif()
foreach(part splice splice_memory splice_source splice_stacks)
  stacksplice_add_test(${part}_test ${part}_test.c)
  target_link_libraries(${part}_test PRIVATE Threads::Threads)
endforeach()
target_sources(splice_memory_test PRIVATE failing_allocator.c)
stacksplice_add_test(many_threads_test many_threads_test.c)
target_link_libraries(many_threads_test PRIVATE ${CMAKE_DL_LIBS} Threads::Threads)
