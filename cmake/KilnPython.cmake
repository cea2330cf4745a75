# The Python package: kiln._kiln over the public headers, and the files beside it, in
# build/PRESET/python/kiln as it will be installed.
set_property(CACHE KILN_PYTHON PROPERTY STRINGS AUTO ON OFF)
if(NOT KILN_PYTHON)
  return()
endif()
if(KILN_PYTHON STREQUAL "AUTO" AND (KILN_SANITIZE OR KILN_FUZZERS OR NOT PROJECT_IS_TOP_LEVEL))
  return()  # Python itself has no sanitizer; who builds kiln as a part asks for it
endif()
set(needed "")
if(NOT KILN_PYTHON STREQUAL "AUTO")
  set(needed REQUIRED)
endif()

# Debian's, whose packages scripts/packages installs; unless a virtual environment is active or
# -DPython3_EXECUTABLE names another.
if(NOT DEFINED Python3_EXECUTABLE AND NOT DEFINED ENV{VIRTUAL_ENV} AND EXISTS /usr/bin/python3)
  set(Python3_EXECUTABLE /usr/bin/python3)
endif()
find_package(Python3 3.9 ${needed} COMPONENTS Interpreter Development.Module)
find_path(KILN_PYBIND11_DIR pybind11/pybind11.h ${needed})
find_path(KILN_DLPACK_DIR dlpack/dlpack.h ${needed})
if(NOT Python3_FOUND OR NOT KILN_PYBIND11_DIR OR NOT KILN_DLPACK_DIR)
  message(STATUS "No Python package: Python, pybind11 or DLPack's header was not found")
  return()
endif()

set(package ${CMAKE_BINARY_DIR}/python/kiln)
file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/python/src/*.cpp)
Python3_add_library(kiln_python MODULE WITH_SOABI ${sources})
kiln_unity(kiln_python)
target_include_directories(kiln_python SYSTEM PRIVATE ${KILN_PYBIND11_DIR} ${KILN_DLPACK_DIR})
# Of kiln_options only the warnings: its include paths reach kiln's insides.
target_compile_options(kiln_python PRIVATE
                       $<TARGET_PROPERTY:kiln_options,INTERFACE_COMPILE_OPTIONS>)
target_link_libraries(kiln_python PRIVATE kiln::kiln kiln_fmt)
set(exports ${PROJECT_SOURCE_DIR}/cmake/python.map)
target_link_options(kiln_python PRIVATE -Wl,--version-script=${exports})
set_target_properties(kiln_python PROPERTIES OUTPUT_NAME _kiln LIBRARY_OUTPUT_DIRECTORY ${package}
                                             LINK_DEPENDS ${exports})

# Where this Python looks below a prefix: site-packages, on Debian dist-packages (of /usr/local).
get_filename_component(folder ${Python3_SITEARCH} NAME)
set(KILN_PYTHON_DIR lib/python${Python3_VERSION_MAJOR}.${Python3_VERSION_MINOR}/${folder}
    CACHE STRING "Where the Python package is installed, relative to the prefix")
file(RELATIVE_PATH up "/p/${KILN_PYTHON_DIR}/kiln" "/p")
set_target_properties(kiln_python PROPERTIES INSTALL_RPATH "$ORIGIN/${up}${CMAKE_INSTALL_LIBDIR}")
install(TARGETS kiln_python LIBRARY DESTINATION ${KILN_PYTHON_DIR}/kiln COMPONENT python)
install(DIRECTORY python/kiln DESTINATION ${KILN_PYTHON_DIR} COMPONENT python
        PATTERN __pycache__ EXCLUDE PATTERN .mypy_cache EXCLUDE)
add_dependencies(installable kiln_python)

file(GLOB files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/python/kiln/*)
list(FILTER files EXCLUDE REGEX "__pycache__")
foreach(file IN LISTS files)
  get_filename_component(name ${file} NAME)
  configure_file(${file} ${package}/${name} COPYONLY)
endforeach()

# A libkiln inside the module looks for its parts beside the module.
foreach(part kiln_clang kiln_worker)
  if(NOT TARGET ${part} OR KILN_KIND STREQUAL "SHARED_LIBRARY")
    continue()
  endif()
  if(part STREQUAL "kiln_clang")
    set(file libkiln_clang.so)
    set(folder ${CMAKE_INSTALL_LIBDIR}/kiln)
  else()
    set(file kiln-worker)
    set(folder ${CMAKE_INSTALL_LIBEXECDIR}/kiln)
  endif()
  add_dependencies(kiln_python ${part})
  add_custom_command(TARGET kiln_python POST_BUILD
    COMMAND ${CMAKE_COMMAND} -E create_symlink $<TARGET_FILE:${part}> ${package}/${file})
  install(CODE "file(CREATE_LINK \"${up}${folder}/${file}\"
    \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${KILN_PYTHON_DIR}/kiln/${file}\" SYMBOLIC)" COMPONENT python)
endforeach()
