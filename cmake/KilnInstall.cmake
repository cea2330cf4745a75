# libkiln: one library for users that holds every layer, and what `cmake --install` puts where:
#   bin/kiln  libexec/kiln/kiln-worker  lib/libkiln.*  lib/kiln/libkiln_clang.so  include/kiln
include(CMakePackageConfigHelpers)

set(kiln_objects "")
foreach(layer generator runtime tuner cache engine)
  if(NOT layer STREQUAL "generator" OR NOT KILN_BORROW)
    list(APPEND kiln_objects $<TARGET_OBJECTS:kiln_${layer}>)
  endif()
endforeach()
set(kiln_packages kiln_fmt kiln_spdlog kiln_hwloc kiln_sqlite kiln_zstd kiln_xxhash kiln_fibers)
# Not named kiln: the command's file is, and Ninja would take one for the other.
add_library(kiln_library ${kiln_objects})
add_library(kiln::kiln ALIAS kiln_library)
set_target_properties(kiln_library PROPERTIES OUTPUT_NAME kiln EXPORT_NAME kiln
                                      LINKER_LANGUAGE CXX VERSION ${PROJECT_VERSION}
                                      SOVERSION ${PROJECT_VERSION_MAJOR})
target_include_directories(kiln_library INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                                          $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_compile_features(kiln_library INTERFACE cxx_std_20)
if(KILN_BORROW)
  target_link_libraries(kiln_library PRIVATE kiln_generator)
endif()
target_link_libraries(kiln_library PRIVATE ${kiln_packages} Threads::Threads ${CMAKE_DL_LIBS})

# What was linked in statically must not be seen, or it would stand in for the user's own copy.
function(kiln_exports target)
  set(exports ${CMAKE_BINARY_DIR}/generated/libkiln.map)
  configure_file(${PROJECT_SOURCE_DIR}/cmake/libkiln.map.in ${exports} @ONLY)
  target_link_options(${target} PRIVATE -Wl,--version-script=${exports})
  set_target_properties(${target} PROPERTIES LINK_DEPENDS ${exports})
endfunction()

get_target_property(KILN_KIND kiln_library TYPE)
if(KILN_KIND STREQUAL "SHARED_LIBRARY")
  kiln_exports(kiln_library)
  set(exported kiln_library)
else()
  set(exported kiln_library ${kiln_packages})
endif()
if(KILN_STATIC AND NOT KILN_KIND STREQUAL "SHARED_LIBRARY")
  message(FATAL_ERROR "KILN_STATIC=ON makes a folder that needs no packages beside it, so libkiln "
                      "has to hold them: set BUILD_SHARED_LIBS=ON too")
endif()

# Everything that is installed, and nothing else: what a script builds before `cmake --install`.
add_custom_target(installable)
foreach(part kiln_library kiln_cli kiln_clang kiln_worker kiln_peers)
  if(TARGET ${part})
    add_dependencies(installable ${part})
  endif()
endforeach()

install(TARGETS ${exported} EXPORT kilnTargets
        ARCHIVE COMPONENT devel
        LIBRARY COMPONENT library NAMELINK_COMPONENT devel)
install(EXPORT kilnTargets NAMESPACE kiln:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/kiln
        COMPONENT devel)
install(DIRECTORY include/kiln DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT devel)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT licence)
if(KILN_STATIC OR KILN_PACKAGES)
  # Who gives others' code away tells their names and terms.
  set(KILN_NOTICES ${CMAKE_BINARY_DIR}/THIRD-PARTY)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
               ${PROJECT_SOURCE_DIR}/cmake/third_party.txt ${PROJECT_SOURCE_DIR}/scripts/third_party)
  set(linked_in "")
  if(KILN_STATIC)
    set(linked_in static)
  endif()
  execute_process(COMMAND ${PROJECT_SOURCE_DIR}/scripts/third_party ${linked_in}
                  OUTPUT_FILE ${KILN_NOTICES} COMMAND_ERROR_IS_FATAL ANY)
  install(FILES ${KILN_NOTICES} DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT licence)
endif()
if(KILN_STATIC)
  # The public headers' one outside header goes along, so that the folder is enough.
  find_path(KILN_EXPECTED_DIR tl/expected.hpp REQUIRED)
  install(FILES ${KILN_EXPECTED_DIR}/tl/expected.hpp DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tl
          COMPONENT devel)
endif()
if(TARGET kiln_clang)
  install(TARGETS kiln_clang LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/kiln COMPONENT compiler)
endif()
if(TARGET kiln_worker)
  install(TARGETS kiln_worker RUNTIME DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/kiln
          COMPONENT command)
endif()
if(TARGET kiln_cli)
  install(TARGETS kiln_cli RUNTIME COMPONENT command)
endif()
if(KILN_DATABASES)
  # cache/paths.cpp looks for them there.
  file(GLOB databases CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/db/*.kiln)
  install(FILES ${databases} DESTINATION ${CMAKE_INSTALL_DATADIR}/kiln COMPONENT databases)
endif()
if(TARGET kiln_cli AND NOT CMAKE_CROSSCOMPILING)
  # Man pages and completions, by the command from its own help.
  set(pages ${CMAKE_BINARY_DIR}/pages)
  add_custom_command(OUTPUT ${pages}/bash/kiln ${pages}/zsh/_kiln ${pages}/fish/kiln.fish ${pages}/man1/kiln.1
    COMMAND ${CMAKE_COMMAND} -E rm -rf ${pages}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${pages}/bash ${pages}/zsh ${pages}/fish
    COMMAND kiln_cli man --write ${pages}/man1
    COMMAND kiln_cli completion bash > ${pages}/bash/kiln
    COMMAND kiln_cli completion zsh > ${pages}/zsh/_kiln
    COMMAND kiln_cli completion fish > ${pages}/fish/kiln.fish
    DEPENDS kiln_cli VERBATIM)
  add_custom_target(kiln_pages ALL DEPENDS ${pages}/man1/kiln.1)
  add_dependencies(installable kiln_pages)
  install(DIRECTORY ${pages}/man1 DESTINATION ${CMAKE_INSTALL_MANDIR})
  install(FILES ${pages}/bash/kiln DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
  install(FILES ${pages}/zsh/_kiln DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
  install(FILES ${pages}/fish/kiln.fish
          DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
endif()

configure_package_config_file(cmake/kilnConfig.cmake.in ${CMAKE_BINARY_DIR}/kilnConfig.cmake
                              INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/kiln)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/kilnConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/kilnConfig.cmake ${CMAKE_BINARY_DIR}/kilnConfigVersion.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/kiln COMPONENT devel)

# pkg-config: the same dependencies by their own .pc names; SQLiteCpp has none.
if(KILN_KIND STREQUAL "SHARED_LIBRARY")
  set(KILN_PC_PRIVATE "")
else()
  set(KILN_PC_PRIVATE "Requires: fmt spdlog hwloc sqlite3 libzstd libxxhash")
  set(KILN_PC_LIBS "-lSQLiteCpp -lboost_context -lstdc++ -lpthread -ldl -lm")
endif()
file(RELATIVE_PATH KILN_PC_UP "/p/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/p")
configure_file(cmake/kiln.pc.in ${CMAKE_BINARY_DIR}/kiln.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/kiln.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT devel)
