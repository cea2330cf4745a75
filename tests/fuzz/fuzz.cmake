# fuzz/<name>_fuzz.cpp holds LLVMFuzzerTestOneInput; <name>_fuzz replays corpus/<name>/* and a short
# seeded run of mutations as an ordinary test. With Clang and KILN_FUZZERS, <name>_fuzzer is the real
# libFuzzer program for the same entry function; the target `fuzzers` builds all of them.
add_custom_target(fuzz_drivers)
add_dependencies(kiln_tests fuzz_drivers)
add_custom_target(fuzzers)
# Compiled once: the command line's parser is most of the cost of a program.
add_library(fuzz_driver OBJECT ${CMAKE_CURRENT_SOURCE_DIR}/fuzz/driver.cpp)
target_link_libraries(fuzz_driver PRIVATE kiln_test_support CLI11::CLI11)
file(GLOB entries CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/fuzz/*_fuzz.cpp)
foreach(entry IN LISTS entries)
  get_filename_component(name ${entry} NAME_WE)
  string(REGEX REPLACE "_fuzz$" "" corpus ${name})
  # A mutation of a database is written to a file and read back: milliseconds, not microseconds.
  set(mutations 5000)
  if(corpus STREQUAL store)
    set(mutations 25)
  endif()
  add_executable(${name} ${entry} ${CMAKE_CURRENT_SOURCE_DIR}/fuzz/entry.cpp
                 $<TARGET_OBJECTS:fuzz_driver>)
  add_dependencies(fuzz_drivers ${name})
  target_link_libraries(${name} PRIVATE kiln_test_support)
  target_compile_definitions(${name} PRIVATE KILN_FUZZ_NAME="${name}"
    KILN_CORPUS="${corpus}" KILN_MUTATIONS=${mutations})
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES LABELS fuzz)
  if(KILN_FUZZERS AND CMAKE_CXX_COMPILER_ID MATCHES Clang)
    add_executable(${name}er ${entry})
    target_link_libraries(${name}er PRIVATE kiln_test_support)
    target_link_options(${name}er PRIVATE -fsanitize=fuzzer)
    add_dependencies(fuzzers ${name}er)
  endif()
endforeach()
