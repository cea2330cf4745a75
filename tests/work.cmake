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
  endforeach()
endfunction()
