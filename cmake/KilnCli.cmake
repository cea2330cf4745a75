# The `kiln` command: every layer, and CLI11 for its options.
find_package(CLI11 REQUIRED)
file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/cli/*.cpp)
add_executable(kiln_cli ${sources})
kiln_unity(kiln_cli)
set_target_properties(kiln_cli PROPERTIES OUTPUT_NAME kiln)
target_link_libraries(kiln_cli PRIVATE kiln_fleet CLI11::CLI11)
# Loaded and started at run time, so the linker does not know that they are needed.
foreach(part kiln_clang kiln_worker)
  if(TARGET ${part})
    add_dependencies(kiln_cli ${part})
  endif()
endforeach()
