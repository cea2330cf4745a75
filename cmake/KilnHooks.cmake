# Libraries that stand between programs and the libraries that they call. Each holds libkiln, of
# which it exports nothing.
set(KILN_HOOKS AUTO CACHE STRING "Build the hooks for BLAS and cuBLAS callers: ON, OFF, or AUTO (where they can be)")
set_property(CACHE KILN_HOOKS PROPERTY STRINGS AUTO ON OFF)
if(NOT KILN_HOOKS)
  return()
endif()
if(KILN_HOOKS STREQUAL "AUTO" AND (KILN_SANITIZE OR KILN_FUZZERS OR NOT PROJECT_IS_TOP_LEVEL))
  return()  # a preloaded library cannot bring a sanitizer's runtime
endif()

# kiln_hook(NAME FOLDER EXPORTS): lib<NAME>.so of hooks/FOLDER and hooks/common, which exports these
# names and no others.
function(kiln_hook name folder exports)
  set(map ${CMAKE_BINARY_DIR}/hooks/${name}.map)
  file(CONFIGURE OUTPUT ${map} CONTENT "{\n  global: ${exports}\n  local: *;\n};\n" @ONLY)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/hooks/${folder}/*.cpp
       ${PROJECT_SOURCE_DIR}/hooks/common/*.cpp)
  add_library(${name} MODULE ${sources})
  kiln_unity(${name})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}
                             ${CMAKE_BINARY_DIR}/hooks/${folder})
  # Of kiln_options only the warnings: its include paths reach kiln's insides.
  target_compile_options(${name} PRIVATE
    $<$<COMPILE_LANGUAGE:CXX>:$<TARGET_PROPERTY:kiln_options,INTERFACE_COMPILE_OPTIONS>>)
  target_link_libraries(${name} PRIVATE kiln::kiln ${CMAKE_DL_LIBS})
  target_link_options(${name} PRIVATE -Wl,--version-script=${map} -Wl,-z,nodelete)
  set_target_properties(${name} PROPERTIES
    LINK_DEPENDS ${map}
    INSTALL_RPATH "$ORIGIN/.."
    BUILD_WITH_INSTALL_RPATH OFF)
  install(TARGETS ${name} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/kiln COMPONENT hooks)
  add_dependencies(installable ${name})
endfunction()

# BLAS: one jump and one exported name for each line of the list. libkiln_blas.so is for LD_PRELOAD,
# libkiln_blas_alternative.so for Debian's alternatives.
set(stubs ${PROJECT_SOURCE_DIR}/hooks/blas/forward_${CMAKE_SYSTEM_PROCESSOR}.S)
if(EXISTS ${stubs})
  enable_language(ASM)
  set(list ${PROJECT_SOURCE_DIR}/hooks/blas/forwarded.txt)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${list})
  file(STRINGS ${list} names REGEX "^[a-z]")
  set(stub_lines "")
  set(exports "kiln_blas_hook; sgemm_; dgemm_; sbgemm_; sgemm*64_; dgemm*64_; cblas_?gemm;
    cblas_sbgemm; cblas_?gemm*64*; cblas_?gemm_batch_strided*;")
  set(error_handlers "")
  set(index 0)
  foreach(name IN LISTS names)
    string(APPEND stub_lines "FORWARD(${name}, ${index})\n")
    if(name MATCHES "xerbla")
      string(APPEND error_handlers "\n    ${name};")
    else()
      string(APPEND exports "\n    ${name};")
    endif()
    math(EXPR index "${index} + 1")
  endforeach()
  set(forwarded ${CMAKE_BINARY_DIR}/hooks/blas/forwarded.inc)
  file(CONFIGURE OUTPUT ${forwarded} CONTENT "${stub_lines}" @ONLY)
  # A preloaded library's error handler would come before that of a program's extension (NumPy's);
  # as the system's BLAS it is the one that LAPACK calls.
  kiln_hook(kiln_blas blas "${exports}")
  kiln_hook(kiln_blas_alternative blas "${exports}${error_handlers}")
  foreach(target kiln_blas kiln_blas_alternative)
    target_sources(${target} PRIVATE ${stubs})
  endforeach()
  set_property(SOURCE ${stubs} APPEND PROPERTY OBJECT_DEPENDS ${forwarded})
elseif(NOT KILN_HOOKS STREQUAL "AUTO")
  message(FATAL_ERROR "KILN_HOOKS: no stubs for ${CMAKE_SYSTEM_PROCESSOR} in hooks/blas")
endif()

# cuBLAS: NVIDIA's headers say which functions there are; the libraries are opened at run time.
find_path(KILN_CUBLAS_INCLUDE cublasLt.h
          HINTS ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda PATH_SUFFIXES include)
mark_as_advanced(KILN_CUBLAS_INCLUDE)
if(KILN_CUBLAS_INCLUDE)
  kiln_hook(kiln_cublas cublas "cublas*; cublasLtMatmul;")
  target_include_directories(kiln_cublas SYSTEM PRIVATE ${KILN_CUBLAS_INCLUDE})
elseif(NOT KILN_HOOKS STREQUAL "AUTO")
  message(FATAL_ERROR "KILN_HOOKS: cublasLt.h was not found; set KILN_CUBLAS_INCLUDE or CUDA_HOME")
endif()
