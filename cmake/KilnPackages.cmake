# Debian packages by CPack, one for each component of what is installed: scripts/package makes them,
# docs/releases.md describes them.
if(NOT KILN_PACKAGES)
  return()
endif()
set(KILN_MAINTAINER "kiln maintainers <kiln@example.com>" CACHE STRING "Who answers for the packages")
set(KILN_DEBIAN_REVISION 1 CACHE STRING "Revision of the packages of one version of kiln")
if(NOT DEFINED ENV{SOURCE_DATE_EPOCH})
  message(FATAL_ERROR "SOURCE_DATE_EPOCH is not set, so packages would hold the time of their making: "
                      "run scripts/package")
endif()
set(debian ${CMAKE_BINARY_DIR}/debian)
set(KILN_PACKAGE_VERSION ${PROJECT_VERSION}-${KILN_DEBIAN_REVISION})
string(TIMESTAMP KILN_PACKAGE_DATE "%a, %d %b %Y %H:%M:%S +0000" UTC)
file(CONFIGURE OUTPUT ${debian}/triggers CONTENT "activate-noawait ldconfig\n")
file(CONFIGURE OUTPUT ${debian}/shlibs CONTENT
     "libkiln @PROJECT_VERSION_MAJOR@ libkiln@PROJECT_VERSION_MAJOR@ (>= @PROJECT_VERSION@)\n" @ONLY)
configure_file(cmake/debian/changelog.in ${debian}/changelog @ONLY)
file(MAKE_DIRECTORY ${debian}/gz)

function(kiln_gzip from to)
  execute_process(COMMAND gzip -9nc ${from} OUTPUT_FILE ${debian}/gz/${to} COMMAND_ERROR_IS_FATAL ANY)
endfunction()
kiln_gzip(${debian}/changelog changelog.Debian.gz)
kiln_gzip(${PROJECT_SOURCE_DIR}/CHANGELOG.md changelog.gz)
kiln_gzip(${KILN_NOTICES} THIRD-PARTY.gz)

# kiln_package(COMPONENT NAME DEPENDS … RECOMMENDS … SUGGESTS … SECTION … TEXT SUMMARY LINE …)
set(CPACK_COMPONENTS_ALL "")
macro(kiln_package component name)
  cmake_parse_arguments(package "" "SECTION" "DEPENDS;RECOMMENDS;SUGGESTS;TEXT" ${ARGN})
  string(TOUPPER ${component} upper)
  list(APPEND CPACK_COMPONENTS_ALL ${component})
  set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ${name})
  set(CPACK_DEBIAN_${upper}_PACKAGE_SECTION ${package_SECTION})
  foreach(kind DEPENDS RECOMMENDS SUGGESTS)
    list(JOIN package_${kind} ", " CPACK_DEBIAN_${upper}_PACKAGE_${kind})
  endforeach()
  list(JOIN package_TEXT "\n" CPACK_DEBIAN_${upper}_DESCRIPTION)
  set(doc ${CMAKE_INSTALL_DATADIR}/doc/${name})
  install(FILES cmake/debian/copyright ${debian}/gz/changelog.Debian.gz ${debian}/gz/changelog.gz
                ${debian}/gz/THIRD-PARTY.gz
          DESTINATION ${doc} COMPONENT ${component})
  set(overrides ${PROJECT_SOURCE_DIR}/cmake/debian/${name}.lintian-overrides)
  if(EXISTS ${overrides})
    install(FILES ${overrides} DESTINATION ${CMAKE_INSTALL_DATADIR}/lintian/overrides RENAME ${name}
            COMPONENT ${component})
  endif()
endmacro()

set(same "(= ${KILN_PACKAGE_VERSION})")
set(about "kiln generates, compiles, verifies, times and stores kernels of matrix"
          "products (GEMM) for the machine that it runs on, CPU or GPU.")
kiln_package(library libkiln${PROJECT_VERSION_MAJOR} SECTION libs
  RECOMMENDS "kiln ${same}" "libkiln-clang ${same}" "kiln-data ${same}"
  TEXT "matrix products by tuned kernels: shared library" ${about}
       "This package has the library. Tuning also needs the package kiln, compiling"
       "libkiln-clang.")
kiln_package(devel libkiln-dev SECTION libdevel
  DEPENDS "libkiln${PROJECT_VERSION_MAJOR} ${same}" libexpected-dev
  TEXT "matrix products by tuned kernels: headers" ${about}
       "This package has the headers of the C and C++ interfaces, and the files for"
       "CMake and pkg-config.")
kiln_package(command kiln SECTION utils
  RECOMMENDS "libkiln-clang ${same}" "kiln-data ${same}"
  SUGGESTS libopenblas0-pthread libblis4-openmp libdnnl2
  TEXT "matrix products by tuned kernels: command" ${about}
       "This package has the command, the process in which candidates run, and the"
       "libraries that are raced beside kiln's kernels.")
kiln_package(compiler libkiln-clang SECTION libs
  TEXT "matrix products by tuned kernels: compiler" ${about}
       "This package has the compiler, Clang as a library. A program that finds its"
       "kernels in a database does not need it.")
kiln_package(databases kiln-data SECTION misc
  TEXT "matrix products by tuned kernels: databases" ${about}
       "This package has kernels for x86-64 CPUs and winners of some NVIDIA GPUs,"
       "which installed programs find by themselves.")
set(CPACK_DEBIAN_DATABASES_PACKAGE_ARCHITECTURE all)
if(TARGET kiln_python)
  set(python ${Python3_VERSION_MAJOR}.${Python3_VERSION_MINOR})
  math(EXPR next "${Python3_VERSION_MINOR} + 1")
  kiln_package(python python3-kiln SECTION python
    DEPENDS "libkiln${PROJECT_VERSION_MAJOR} ${same}" "python3 (>= ${python}~)"
            "python3 (<< ${Python3_VERSION_MAJOR}.${next})" python3-numpy
    SUGGESTS python3-torch
    TEXT "matrix products by tuned kernels: Python package" ${about}
         "This package has the Python package, for NumPy's arrays and DLPack's.")
  # Python's own files beside the package's come and go with it.
  set(CPACK_DEBIAN_PYTHON_PACKAGE_CONTROL_EXTRA ${PROJECT_SOURCE_DIR}/cmake/debian/python/postinst
      ${PROJECT_SOURCE_DIR}/cmake/debian/python/prerm)
endif()
if(TARGET kiln_blas)
  kiln_package(hooks kiln-hooks SECTION libs
    DEPENDS "libkiln${PROJECT_VERSION_MAJOR} ${same}"
    RECOMMENDS "kiln ${same}"
    TEXT "matrix products by tuned kernels: hooks" ${about}
         "This package has libraries that are preloaded before a program's BLAS: its"
         "products run on kiln where a stored race says that kiln is faster.")
endif()

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME kiln)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "")  # each package has its own
set(CPACK_PACKAGING_INSTALL_PREFIX ${CMAKE_INSTALL_PREFIX})
set(CPACK_PACKAGE_DIRECTORY ${CMAKE_BINARY_DIR}/packages)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_RELEASE ${KILN_DEBIAN_REVISION})
set(CPACK_DEBIAN_PACKAGE_MAINTAINER ${KILN_MAINTAINER})
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
# Where libkiln.so is before any package of it is installed.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CMAKE_LIBRARY_OUTPUT_DIRECTORY})
# The loader's cache is a matter of dpkg's triggers, not of scripts that CPack would write.
set(CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_EXTRA ${debian}/shlibs ${debian}/triggers)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
    OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/cmake/debian/before_packing.cmake)
include(CPack)
