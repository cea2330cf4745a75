# The benchmark: kiln_bench, and one shared object for each peer that cannot be dlopen-ed as it ships.
# Everything here is optional: without the packages the peer is reported as absent.
kiln_layer(bench kiln_engine nlohmann_json::nlohmann_json ${CMAKE_DL_LIBS})
target_compile_definitions(kiln_bench PRIVATE
  KILN_INSTALL_LIBDIR="${CMAKE_INSTALL_LIBDIR}")

# Shape lists are compiled in, as templates are.
file(GLOB KILN_SHAPES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/bench/shapes/*.txt)
set(embedded_shapes ${CMAKE_BINARY_DIR}/generated/embedded_shapes.cpp)
add_custom_command(OUTPUT ${embedded_shapes}
  COMMAND ${CMAKE_COMMAND} -DOUT=${embedded_shapes} "-DFILES=${KILN_SHAPES}"
          -DROOT=${PROJECT_SOURCE_DIR}/bench/shapes -DFUNCTION=embedded_shapes
          -DHEADER=bench/suites.h -P ${PROJECT_SOURCE_DIR}/cmake/EmbedTemplates.cmake
  DEPENDS ${KILN_SHAPES} ${PROJECT_SOURCE_DIR}/cmake/EmbedTemplates.cmake VERBATIM)
target_sources(kiln_bench PRIVATE ${embedded_shapes})

# Shared objects that are opened at run time: built where they are asked for or installed.
add_custom_target(kiln_peers)
function(kiln_peer_module name source)
  add_library(kiln_peer_${name} MODULE ${PROJECT_SOURCE_DIR}/bench/modules/${source})
  target_link_libraries(kiln_peer_${name} PRIVATE kiln_options ${ARGN})
  target_compile_options(kiln_peer_${name} PRIVATE -O3 -DNDEBUG)
  add_dependencies(kiln_peers kiln_peer_${name})
  install(TARGETS kiln_peer_${name} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/kiln
          COMPONENT command)
endfunction()

option(KILN_EIGEN "Build the peers that are compiled from Eigen's headers: a minute of work" ON)
if(KILN_EIGEN)
  find_package(Eigen3 QUIET NO_MODULE)
endif()
find_package(OpenMP QUIET COMPONENTS CXX)
if(TARGET Eigen3::Eigen AND TARGET OpenMP::OpenMP_CXX)
  kiln_peer_module(eigen_baseline eigen.cpp Eigen3::Eigen OpenMP::OpenMP_CXX)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    kiln_peer_module(eigen_avx2 eigen.cpp Eigen3::Eigen OpenMP::OpenMP_CXX)
    target_compile_options(kiln_peer_eigen_avx2 PRIVATE -march=haswell)
    kiln_peer_module(eigen_avx512 eigen.cpp Eigen3::Eigen OpenMP::OpenMP_CXX)
    target_compile_options(kiln_peer_eigen_avx512 PRIVATE -march=skylake-avx512
      -Wno-maybe-uninitialized)  # GCC 12 warns inside its own AVX-512 intrinsics
  endif()
endif()

find_path(KILN_XSMM_INCLUDE libxsmm.h)
find_library(KILN_XSMM xsmm)
find_library(KILN_XSMM_NOBLAS xsmmnoblas)
if(KILN_XSMM_INCLUDE AND KILN_XSMM AND KILN_XSMM_NOBLAS)
  kiln_peer_module(xsmm xsmm.cpp ${KILN_XSMM} ${KILN_XSMM_NOBLAS} Threads::Threads ${CMAKE_DL_LIBS})
  target_include_directories(kiln_peer_xsmm SYSTEM PRIVATE ${KILN_XSMM_INCLUDE})
  target_link_options(kiln_peer_xsmm PRIVATE -Wl,--exclude-libs,ALL)
endif()
