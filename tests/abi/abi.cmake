# The C interface is that of earlier versions, and more (docs/releases.md): a shared libkiln of this
# build's objects is compared with what tests/abi keeps of them. The functions are the engine's, so its
# debug information is enough.
if(KILN_SANITIZE)
  return()
endif()
find_program(KILN_ABIDIFF abidiff REQUIRED)
target_compile_options(kiln_engine PRIVATE -g -fdebug-prefix-map=${CMAKE_BINARY_DIR}=.
                                           -fdebug-prefix-map=${PROJECT_SOURCE_DIR}=.)
add_library(kiln_abi SHARED ${kiln_objects})
target_link_libraries(kiln_abi PRIVATE ${kiln_packages} Threads::Threads ${CMAKE_DL_LIBS})
set_target_properties(kiln_abi PROPERTIES OUTPUT_NAME kiln LINKER_LANGUAGE CXX
                      VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}
                      LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/abi)
kiln_exports(kiln_abi)
add_dependencies(kiln_tests kiln_abi)
add_test(NAME abi_exports COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/install/symbols.sh
         $<TARGET_FILE:kiln_abi> ${PROJECT_SOURCE_DIR}/include/kiln/kiln.h)
add_test(NAME abi_of_c_interface COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/abi/check
         $<TARGET_FILE:kiln_abi>)
set_tests_properties(abi_exports abi_of_c_interface PROPERTIES LABELS install)
