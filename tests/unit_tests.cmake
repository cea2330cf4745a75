# What unit tests need beside the libraries: programs in C, the command, and runtimes without a device.

if("c_api_test" MATCHES "${KILN_TESTS_MATCHING}")
  # C99 programs: one that uses kiln.h, and those built against an older and a newer one.
  set(c_programs unit/engine/c_api_user.c unit/engine/c_api_older.c unit/engine/c_api_newer.c)
  target_sources(unit_tests PRIVATE ${c_programs})
  set_source_files_properties(${c_programs} PROPERTIES
                              COMPILE_OPTIONS "-std=c99;-pedantic-errors;-Wall;-Wextra;-Werror")
endif()

if("fields_test" MATCHES "${KILN_TESTS_MATCHING}")
  # What `kiln verify` draws.
  target_sources(unit_tests PRIVATE ${PROJECT_SOURCE_DIR}/cli/commands/random_gemm.cpp
                                    ${PROJECT_SOURCE_DIR}/cli/commands/random_expression.cpp)
endif()

if("worker_cage_test" MATCHES "${KILN_TESTS_MATCHING}")
  # The cage of GPU sessions is tried without a GPU.
  target_sources(unit_tests PRIVATE ${PROJECT_SOURCE_DIR}/tuner/worker/program/cage.cpp
                                    ${PROJECT_SOURCE_DIR}/tuner/worker/program/cage_filter.cpp)
endif()

if("cli_test" MATCHES "${KILN_TESTS_MATCHING}")
  # The benchmark, the command that is run as a child process, compressed tables.
  target_link_libraries(unit_tests PRIVATE kiln_fleet kiln_zstd nlohmann_json::nlohmann_json)
  add_dependencies(unit_tests kiln_cli)
endif()

if("onednn_test" MATCHES "${KILN_TESTS_MATCHING}")
  # Libraries that are not installed here, each in a folder of its own.
  function(kiln_fake_peer name file definition)
    add_library(fake_${name} SHARED ${ARGN})
    # Without a soname, by which the linker would find it for who asks for the real one later.
    set_target_properties(fake_${name} PROPERTIES OUTPUT_NAME ${file} SUFFIX "" PREFIX ""
                          NO_SONAME ON
                          LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fakes/${name})
    target_compile_options(fake_${name} PRIVATE -fvisibility=default)
    target_compile_definitions(fake_${name} PRIVATE ${definition})
    add_dependencies(unit_tests fake_${name})
    kiln_test_path(fake_${name}_path $<TARGET_FILE:fake_${name}>)
  endfunction()
  kiln_fake_peer(onednn3 libdnnl.so.3 FAKE_ONEDNN fakes/onednn3.cpp)
  kiln_fake_peer(onednn3_broken libdnnl.so.3 FAKE_ONEDNN_LACKS_MATMUL fakes/onednn3.cpp)
  kiln_fake_peer(aocl libblis-mt.so.5 FAKE_BLAS_IS_AOCL fakes/aocl.cpp fakes/blas.cpp)
endif()

# The small formats have LLVM's numbers as their oracle.
if(TARGET kiln_llvm AND TARGET small_formats_test)
  target_compile_definitions(small_formats_test PRIVATE KILN_TEST_HAS_LLVM=1)
  target_link_libraries(small_formats_test PRIVATE kiln_llvm)
endif()

if(NOT "hip_runtime_test" MATCHES "${KILN_TESTS_MATCHING}")
  return()
endif()

# A HIP runtime without a GPU, and a compiler whose AMD code carries what that runtime can run.
if(TARGET kiln_clang AND NOT KILN_STATIC)
  set(fakes ${CMAKE_CURRENT_SOURCE_DIR}/fakes)
  add_library(fake_hip SHARED ${fakes}/hip_runtime.cpp ${fakes}/hip_state.cpp)
  kiln_unity(fake_hip)
  set_target_properties(fake_hip PROPERTIES OUTPUT_NAME amdhip64 SOVERSION 7)
  add_library(fake_clang MODULE ${fakes}/clang_both.cpp ${fakes}/kept_compiles.cpp)
  foreach(fake fake_hip fake_clang)
    set_target_properties(${fake} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fakes)
    target_include_directories(${fake} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
    target_link_libraries(${fake} PRIVATE kiln_runtime kiln_xxhash nlohmann_json::nlohmann_json)
  endforeach()
  target_link_libraries(hip_tests PRIVATE nlohmann_json::nlohmann_json)
  set(users unit_tests hip_tests)
  if(TARGET invented_vendor_test)
    # A worker that knows the invented vendor, as the test's own process does.
    file(GLOB program CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tuner/worker/program/*.cpp)
    add_executable(acme_worker ${program} ${fakes}/acme.cpp)
    target_link_libraries(acme_worker PRIVATE kiln_tuner)
    kiln_unity(acme_worker)
    target_sources(invented_vendor_test PRIVATE fakes/acme.cpp)
    kiln_test_path(acme_worker_path $<TARGET_FILE:acme_worker>)
    add_dependencies(invented_vendor_test acme_worker)
    list(APPEND users invented_vendor_test)
  endif()
  foreach(target IN LISTS users)
    add_dependencies(${target} fake_hip fake_clang kiln_cli)
    target_compile_definitions(${target} PRIVATE KILN_HAS_FAKE_HIP=1)
  endforeach()
  kiln_test_path(fake_hip_path $<TARGET_FILE:fake_hip>)
  kiln_test_path(fake_clang_path $<TARGET_FILE:fake_clang>)
  kiln_test_path(kept_code_path ${KILN_KEPT_CODE})
  kiln_test_path(real_clang_path $<TARGET_FILE:kiln_clang>)
endif()

# NVML without a GPU, in a folder of its own: who does not ask for it must not find it.
add_library(fake_nvml SHARED fakes/nvml.cpp)
set_target_properties(fake_nvml PROPERTIES OUTPUT_NAME nvidia-ml SOVERSION 1
                      LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fakes/nvml)
add_dependencies(unit_tests fake_nvml)
kiln_test_path(fake_nvml_path $<TARGET_FILE:fake_nvml>)
