# The `kiln` command: every layer, and CLI11 for its options.
find_package(CLI11 REQUIRED)
file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/cli/*.cpp
     ${PROJECT_SOURCE_DIR}/cli/*/*.cpp)
add_executable(kiln_cli ${sources})
kiln_unity(kiln_cli)
set_target_properties(kiln_cli PROPERTIES OUTPUT_NAME kiln)
target_link_libraries(kiln_cli PRIVATE kiln_fleet CLI11::CLI11)
# The parts of the page that `kiln report --out` writes are compiled in, as templates are.
set(page ${PROJECT_SOURCE_DIR}/data/report)
file(GLOB KILN_PAGE CONFIGURE_DEPENDS ${page}/*.html ${page}/*.css ${page}/*.js
     ${page}/vendor/plot.min.js ${page}/vendor/LICENSES.txt)
set(embedded_page ${CMAKE_BINARY_DIR}/generated/embedded_page.cpp)
add_custom_command(OUTPUT ${embedded_page}
  COMMAND ${CMAKE_COMMAND} -DOUT=${embedded_page} "-DFILES=${KILN_PAGE}" -DROOT=${page}
          -DFUNCTION=cli::embedded_page -DHEADER=cli/commands/report_page.h
          -P ${PROJECT_SOURCE_DIR}/cmake/EmbedTemplates.cmake
  DEPENDS ${KILN_PAGE} ${PROJECT_SOURCE_DIR}/cmake/EmbedTemplates.cmake VERBATIM)
target_sources(kiln_cli PRIVATE ${embedded_page})
set_source_files_properties(${embedded_page} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
# Loaded and started at run time, so the linker does not know that they are needed.
foreach(part kiln_clang kiln_worker)
  if(TARGET ${part})
    add_dependencies(kiln_cli ${part})
  endif()
endforeach()
