# Tests tune side by side: none asks how fast a kernel is, so each has its own lock of a device and
# does not wait until the others have tuned. But those of `device`, which share a real one.
#
# What tests cost is counted, for seconds are the machine's: every process of a test adds a line to
# build/PRESET/work/<label>/<test> (runtime/work_counts.h), scripts/work adds them up.
function(kiln_count_work)
  get_property(tests DIRECTORY PROPERTY TESTS)
  foreach(name IN LISTS tests)
    get_test_property(${name} LABELS label)
    list(GET label 0 label)
    file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/work/${label})
    set_property(TEST ${name} APPEND PROPERTY ENVIRONMENT
                 "KILN_WORK_COUNTS=${CMAKE_BINARY_DIR}/work/${label}/${name}")
    if(NOT label STREQUAL "device")
      file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/locks/${name})
      set_property(TEST ${name} APPEND PROPERTY ENVIRONMENT
                   "KILN_LOCK_DIR=${CMAKE_BINARY_DIR}/locks/${name}")
    endif()
  endforeach()
endfunction()
