# What every test finds in its environment; kiln_test_environment() is called where tests were added.
#
# Tests tune side by side: none asks how fast a kernel is, so each has its own lock of a device and
# does not wait until the others have tuned. But those of `device`, which share a real one.
#
# What tests cost is counted, for seconds are the machine's: every process of a test adds a line to
# build/PRESET/work/<label>/<test> (runtime/work_counts.h), scripts/work adds them up.
#
# Tests compile the same kernels many times: all but those of the compiler itself have one that keeps
# what it makes (fakes/clang_kept.cpp) in a folder beside the compiler cache's, which builds share.
if(DEFINED ENV{XDG_CACHE_HOME})
  set(kept_code "$ENV{XDG_CACHE_HOME}/kiln-tests")
elseif(DEFINED ENV{HOME})
  set(kept_code "$ENV{HOME}/.cache/kiln-tests")
else()
  set(kept_code "${CMAKE_BINARY_DIR}/kept-code")
endif()
set(KILN_KEPT_CODE ${kept_code} CACHE PATH "Where tests keep what they compiled")

function(kiln_test_environment)
  set(of_the_compiler compile_server_test compiler_crash_test compiler_test exit_test
                      fault_handlers_test kernel_test)
  set(built ${CMAKE_BINARY_DIR})
  if(KILN_BORROW)
    set(built ${KILN_BORROW})
  endif()
  get_property(tests DIRECTORY PROPERTY TESTS)
  foreach(name IN LISTS tests)
    get_test_property(${name} LABELS label)
    list(GET label 0 label)
    file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/work/${label})
    set(environment "KILN_WORK_COUNTS=${CMAKE_BINARY_DIR}/work/${label}/${name}")
    if(NOT label STREQUAL "device")
      file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/locks/${name})
      list(APPEND environment "KILN_LOCK_DIR=${CMAKE_BINARY_DIR}/locks/${name}")
    endif()
    if(KILN_LLVM AND NOT KILN_STATIC AND NOT label MATCHES "^(install|example)$" AND
       NOT name IN_LIST of_the_compiler)
      list(APPEND environment "KILN_CLANG=${built}/fakes/libclang_kept.so"
           "KILN_REAL_CLANG=${built}/lib/libkiln_clang.so" "KILN_KEPT_CODE=${KILN_KEPT_CODE}")
    endif()
    set_property(TEST ${name} APPEND PROPERTY ENVIRONMENT ${environment})
  endforeach()
endfunction()
