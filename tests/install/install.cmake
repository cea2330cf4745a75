# Installs into a fresh prefix, then builds and runs a separate project that knows only the prefix:
# once through find_package, once through pkg-config with a compiler alone.
set(prefix ${CMAKE_BINARY_DIR}/install-test/prefix)
add_test(NAME install_prefix
  COMMAND ${CMAKE_COMMAND} -DBUILD=${CMAKE_BINARY_DIR} -DPREFIX=${prefix}
          -P ${CMAKE_CURRENT_SOURCE_DIR}/install/install_prefix.cmake)
set_tests_properties(install_prefix PROPERTIES LABELS install FIXTURES_SETUP installed)
# A consumer's program links libkiln.a and lies elsewhere; these name what was installed beside it.
set(installed_parts
    "KILN_CLANG=${prefix}/${CMAKE_INSTALL_LIBDIR}/kiln/libkiln_clang.so"
    "KILN_WORKER=${prefix}/${CMAKE_INSTALL_LIBEXECDIR}/kiln/kiln-worker")
add_test(NAME install_names_no_build_path
  COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/install/no_build_path.sh ${prefix} ${CMAKE_BINARY_DIR})
set_tests_properties(install_names_no_build_path PROPERTIES LABELS install
                     FIXTURES_REQUIRED installed)
if(TARGET kiln_pages)  # man pages and completion, where man(1) and the shells look
  add_test(NAME install_pages COMMAND ${CMAKE_COMMAND} -E md5sum
    ${prefix}/${CMAKE_INSTALL_MANDIR}/man1/kiln.1 ${prefix}/${CMAKE_INSTALL_MANDIR}/man1/kiln-db-list.1
    ${prefix}/${CMAKE_INSTALL_DATADIR}/bash-completion/completions/kiln
    ${prefix}/${CMAKE_INSTALL_DATADIR}/zsh/site-functions/_kiln
    ${prefix}/${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d/kiln.fish)
  set_tests_properties(install_pages PROPERTIES LABELS install FIXTURES_REQUIRED installed)
endif()
if(TARGET kiln_python)
  add_test(NAME install_python
    COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/install/python.sh ${Python3_EXECUTABLE}
            ${prefix}/${KILN_PYTHON_DIR})
  set_tests_properties(install_python PROPERTIES LABELS install FIXTURES_REQUIRED installed)
endif()
if(CMAKE_GENERATOR MATCHES Ninja)
  add_test(NAME install_third_party
    COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/install/third_party.sh ${PROJECT_SOURCE_DIR}
            ${CMAKE_BINARY_DIR} ${CMAKE_MAKE_PROGRAM})
  set_tests_properties(install_third_party PROPERTIES LABELS install)
  add_test(NAME install_targets
    COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/install/targets.sh ${PROJECT_SOURCE_DIR}
            ${CMAKE_BINARY_DIR} ${CMAKE_MAKE_PROGRAM})
  set_tests_properties(install_targets PROPERTIES LABELS install)
endif()

add_test(NAME install_find_package
  COMMAND ${CMAKE_CTEST_COMMAND}
          --build-and-test ${CMAKE_CURRENT_SOURCE_DIR}/install/consumer
                           ${CMAKE_BINARY_DIR}/install-test/consumer
          --build-generator ${CMAKE_GENERATOR}
          --build-options -DCMAKE_PREFIX_PATH=${prefix}
                          -DCMAKE_CXX_COMPILER=${CMAKE_CXX_COMPILER}
                          -DCMAKE_C_COMPILER=${CMAKE_C_COMPILER}
                          -DCMAKE_BUILD_TYPE=${CMAKE_BUILD_TYPE}
                          -DKILN_SANITIZE=${KILN_SANITIZE}
          --test-command ${CMAKE_CTEST_COMMAND} --output-on-failure)
set_tests_properties(install_find_package PROPERTIES LABELS install FIXTURES_REQUIRED installed
                     ENVIRONMENT "${installed_parts}")

add_test(NAME install_pkg_config
  COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/install/pkg_config.sh ${prefix}/${CMAKE_INSTALL_LIBDIR}
          ${CMAKE_CXX_COMPILER} ${CMAKE_CURRENT_SOURCE_DIR}/install/consumer
          ${CMAKE_BINARY_DIR}/install-test/pkg-config ${KILN_SANITIZE})
set_tests_properties(install_pkg_config PROPERTIES LABELS install FIXTURES_REQUIRED installed
                     ENVIRONMENT "${installed_parts}")

add_test(NAME install_builds_no_tests
  COMMAND ${CMAKE_COMMAND} -DSOURCE=${PROJECT_SOURCE_DIR}
          -P ${CMAKE_CURRENT_SOURCE_DIR}/install/no_tests.cmake)
set_tests_properties(install_builds_no_tests PROPERTIES LABELS install)
