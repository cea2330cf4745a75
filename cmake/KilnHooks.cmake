# Libraries that stand between programs and the libraries that they call. Each holds libkiln, of
# which it exports nothing.
set(KILN_HOOKS AUTO CACHE STRING "Build the hooks for BLAS callers: ON, OFF, or AUTO (where they can be)")
set_property(CACHE KILN_HOOKS PROPERTY STRINGS AUTO ON OFF)
if(NOT KILN_HOOKS)
  return()
endif()
if(KILN_HOOKS STREQUAL "AUTO" AND (KILN_SANITIZE OR KILN_FUZZERS OR NOT PROJECT_IS_TOP_LEVEL))
  return()  # a preloaded library cannot bring a sanitizer's runtime
endif()
set(stubs ${PROJECT_SOURCE_DIR}/hooks/blas/forward_${CMAKE_SYSTEM_PROCESSOR}.S)
if(NOT EXISTS ${stubs})
  if(NOT KILN_HOOKS STREQUAL "AUTO")
    message(FATAL_ERROR "KILN_HOOKS: no stubs for ${CMAKE_SYSTEM_PROCESSOR} in hooks/blas")
  endif()
  return()
endif()
enable_language(ASM)

# One jump and one exported name for each line of the list.
set(list ${PROJECT_SOURCE_DIR}/hooks/blas/forwarded.txt)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${list})
file(STRINGS ${list} names REGEX "^[a-z]")
set(stub_lines "")
set(exports "")
set(index 0)
foreach(name IN LISTS names)
  string(APPEND stub_lines "FORWARD(${name}, ${index})\n")
  string(APPEND exports "    ${name};\n")
  math(EXPR index "${index} + 1")
endforeach()
set(generated ${CMAKE_BINARY_DIR}/hooks/blas)
file(CONFIGURE OUTPUT ${generated}/forwarded.inc CONTENT "${stub_lines}" @ONLY)
file(CONFIGURE OUTPUT ${generated}/exports.map CONTENT "{
  global:
    kiln_blas_hook; sgemm_; dgemm_; sbgemm_; sgemm*64_; dgemm*64_; cblas_?gemm; cblas_sbgemm;
    cblas_?gemm*64*; cblas_?gemm_batch_strided*;
${exports}  local: *;
};
" @ONLY)

file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/hooks/blas/*.cpp)
add_library(kiln_blas MODULE ${sources} ${stubs})
kiln_unity(kiln_blas)
set_property(SOURCE ${stubs} APPEND PROPERTY OBJECT_DEPENDS ${generated}/forwarded.inc)
target_include_directories(kiln_blas PRIVATE ${PROJECT_SOURCE_DIR} ${generated})
# Of kiln_options only the warnings: its include paths reach kiln's insides.
target_compile_options(kiln_blas PRIVATE
  $<$<COMPILE_LANGUAGE:CXX>:$<TARGET_PROPERTY:kiln_options,INTERFACE_COMPILE_OPTIONS>>)
target_link_libraries(kiln_blas PRIVATE kiln::kiln ${CMAKE_DL_LIBS})
target_link_options(kiln_blas PRIVATE -Wl,--version-script=${generated}/exports.map -Wl,-z,nodelete)
set_target_properties(kiln_blas PROPERTIES
  LINK_DEPENDS ${generated}/exports.map
  INSTALL_RPATH "$ORIGIN/.."
  BUILD_WITH_INSTALL_RPATH OFF)
install(TARGETS kiln_blas LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/kiln)
add_dependencies(installable kiln_blas)
