# One static library a folder, in processing order; each may link only those before it.
add_library(kiln_options INTERFACE)
target_include_directories(kiln_options INTERFACE ${PROJECT_SOURCE_DIR}/include
                                                  ${PROJECT_SOURCE_DIR})
# A designated initialiser that leaves fields to their defaults is how this code is written. In a unit
# of several files GCC takes a class defined in one of them for a header's.
target_compile_options(kiln_options INTERFACE -Wall -Wextra -Wno-missing-field-initializers
                                              $<$<AND:$<BOOL:${KILN_UNITY}>,$<COMPILE_LANG_AND_ID:CXX,GNU>>:-Wno-subobject-linkage>
                                              $<$<BOOL:${KILN_WERROR}>:-Werror>)
if(KILN_SANITIZE)
  # vptr checks need type information, which LLVM's libraries are built without.
  add_compile_options(-fsanitize=${KILN_SANITIZE} -fno-sanitize-recover=all -fno-sanitize=vptr
                      -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${KILN_SANITIZE})
endif()
if(KILN_FUZZERS AND CMAKE_CXX_COMPILER_ID MATCHES Clang)
  # libFuzzer goes by the branches that it sees: those of the libraries, not of the entry function.
  add_compile_options(-fsanitize=fuzzer-no-link)
  add_link_options(-fsanitize=fuzzer-no-link)
endif()

# Template files are compiled in as bytes, so that a binary needs no files beside it.
file(GLOB_RECURSE KILN_TEMPLATES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/templates/*)
set(embedded ${CMAKE_BINARY_DIR}/generated/embedded_templates.cpp)
add_custom_command(OUTPUT ${embedded}
  COMMAND ${CMAKE_COMMAND} -DOUT=${embedded} "-DFILES=${KILN_TEMPLATES}"
          -DROOT=${PROJECT_SOURCE_DIR}/templates -P ${PROJECT_SOURCE_DIR}/cmake/EmbedTemplates.cmake
  DEPENDS ${KILN_TEMPLATES} ${PROJECT_SOURCE_DIR}/cmake/EmbedTemplates.cmake VERBATIM)

# A few large translation units instead of many small ones: most of a file's compile time is the
# headers that it shares with its neighbours.
# The files of a folder are one unit where there are few cores, so that most headers are read once.
cmake_host_system_information(RESULT cores QUERY NUMBER_OF_LOGICAL_CORES)
set(batch 8)
if(cores LESS_EQUAL 4)
  set(batch 48)
endif()
set(KILN_UNITY_BATCH ${batch} CACHE STRING "With KILN_UNITY: the most files of a folder in one unit")
# Written here and not by CMake's UNITY_BUILD, which names files by absolute paths: those would be in
# the text that ccache compares (__FILE__), so a second clone would compile everything again.
function(kiln_unity target)
  if(KILN_UNITY)
    get_target_property(sources ${target} SOURCES)
    # At the end of the folder, when it is known which sources have options of their own.
    cmake_language(EVAL CODE "cmake_language(DEFER CALL kiln_write_units ${target} [[${sources}]])")
  endif()
endfunction()
function(kiln_write_units target together)
  get_target_property(sources ${target} SOURCES)
  set(units "")
  foreach(source IN LISTS together)
    get_source_file_property(alone ${source} SKIP_UNITY_BUILD_INCLUSION)
    get_source_file_property(options ${source} COMPILE_OPTIONS)
    get_source_file_property(definitions ${source} COMPILE_DEFINITIONS)
    if(alone OR options OR definitions)
      continue()
    endif()
    file(RELATIVE_PATH path ${PROJECT_SOURCE_DIR} ${source})
    # A test file is a namespace: any of them can share a unit.
    string(REGEX MATCH "^tests/|^([^/]+/)?([^/]+/)?([^/]+/)?" folder ${path})
    string(MAKE_C_IDENTIFIER "${folder}" folder)
    list(APPEND folders ${folder})
    set(before ${folders})
    list(FILTER before INCLUDE REGEX "^${folder}$")
    list(LENGTH before count)
    math(EXPR unit "(${count} - 1) / ${KILN_UNITY_BATCH}")
    set(file ${CMAKE_BINARY_DIR}/unity/${target}/${folder}${unit}.cpp)
    list(APPEND units ${file})
    string(APPEND text_${folder}${unit} "#include \"${path}\"\n")
    list(REMOVE_ITEM sources ${source})
  endforeach()
  list(REMOVE_DUPLICATES units)
  foreach(file IN LISTS units)
    get_filename_component(name ${file} NAME_WE)
    file(CONFIGURE OUTPUT ${file} CONTENT "${text_${name}}" @ONLY)
  endforeach()
  set_property(TARGET ${target} PROPERTY SOURCES ${units} ${sources})
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR})
endfunction()
if(KILN_UNITY)
  # Large units: collecting garbage early costs GCC a sixth of its time.
  add_compile_options("$<$<COMPILE_LANG_AND_ID:CXX,GNU>:SHELL:--param ggc-min-expand=200 --param ggc-min-heapsize=524288>")
endif()

function(kiln_layer name)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${name}/*.cpp)
  # Programs and shared objects of their own.
  list(FILTER sources EXCLUDE REGEX "/(runtime/clang|tuner/worker/program|bench/modules)/")
  add_library(kiln_${name} STATIC ${sources})
  kiln_unity(kiln_${name})
  target_link_libraries(kiln_${name} PUBLIC kiln_options ${ARGN})
endfunction()

if(KILN_BORROW)
  # Pure functions of values: a sanitizer has little to find there, and they are half of the build.
  add_library(kiln_generator STATIC IMPORTED GLOBAL)
  set_target_properties(kiln_generator PROPERTIES IMPORTED_LOCATION ${KILN_BORROW}/libkiln_generator.a)
  target_link_libraries(kiln_generator INTERFACE kiln_options kiln_fmt kiln_xxhash)
else()
  kiln_layer(generator kiln_fmt kiln_xxhash)
  target_sources(kiln_generator PRIVATE ${embedded})
  target_compile_definitions(kiln_generator PRIVATE KILN_VERSION="${PROJECT_VERSION}")
endif()
# The emulator's files reinterpret names of the device's headers, each in its own way.
file(GLOB emulator CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/runtime/emulator/*.cpp)
set_source_files_properties(${emulator} ${embedded} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
kiln_layer(runtime kiln_generator Threads::Threads kiln_spdlog kiln_hwloc ${CMAKE_DL_LIBS})
# Debian's alternatives of BLAS lie in folders below it.
target_compile_definitions(kiln_runtime PRIVATE
                           KILN_LIBRARY_ARCHITECTURE="${CMAKE_LIBRARY_ARCHITECTURE}")
target_link_libraries(kiln_runtime PRIVATE nlohmann_json::nlohmann_json kiln_fibers kiln_zstd)
# Compiles a file of data/ into a library as bytes: cmake/EmbedBytes.cmake.
function(kiln_embed target file namespace name)
  set(data ${PROJECT_SOURCE_DIR}/data/${file})
  set(embedded ${CMAKE_BINARY_DIR}/generated/${name}.cpp)
  add_custom_command(OUTPUT ${embedded}
    COMMAND ${CMAKE_COMMAND} -DOUT=${embedded} -DFILE=${data} -DNAMESPACE=${namespace} -DNAME=${name}
            -P ${PROJECT_SOURCE_DIR}/cmake/EmbedBytes.cmake
    DEPENDS ${data} ${PROJECT_SOURCE_DIR}/cmake/EmbedBytes.cmake VERBATIM)
  target_sources(${target} PRIVATE ${embedded})
  set_source_files_properties(${embedded} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()
# The tables by which the emulator knows AMD's matrix instructions.
kiln_embed(kiln_runtime mfma_layouts.tar.zst kiln::emu kMfmaArchive)
# Copies element by element.
set_source_files_properties(${PROJECT_SOURCE_DIR}/runtime/cpu/packed_b.cpp PROPERTIES
                            COMPILE_OPTIONS -O3 SKIP_UNITY_BUILD_INCLUSION ON)
kiln_layer(tuner kiln_runtime nlohmann_json::nlohmann_json)
# The sums of references: in scalars, as GCC's -O2 leaves them, they were nine tenths of every check.
set_source_files_properties(${PROJECT_SOURCE_DIR}/tuner/verify/accumulate.cpp PROPERTIES
                            COMPILE_OPTIONS -O3 SKIP_UNITY_BUILD_INCLUSION ON)
kiln_layer(cache kiln_tuner kiln_sqlite kiln_zstd)
# What kernels have in common, for zstd: cache/codec/dictionaries.h.
kiln_embed(kiln_cache dictionaries/source-33001 kiln kSource33001)
kiln_embed(kiln_cache dictionaries/cubin-33002 kiln kCubin33002)
kiln_embed(kiln_cache dictionaries/x86-33003 kiln kX8633003)
kiln_layer(engine kiln_cache)

# Where the runtime looks for the compiler beside the running code. The build's own folder is not named:
# its programs find lib/ from bin/, and an installed file must not search where it was built.
set(clang_install_dir ${CMAKE_INSTALL_FULL_LIBDIR}/kiln)
if(KILN_LLVM AND KILN_BORROW)
  target_compile_definitions(kiln_runtime PUBLIC KILN_HAS_LLVM=1)
  set(clang_install_dir ${KILN_BORROW}/lib)
  file(MAKE_DIRECTORY ${CMAKE_LIBRARY_OUTPUT_DIRECTORY})
  file(CREATE_LINK ${KILN_BORROW}/lib/libkiln_clang.so
       ${CMAKE_LIBRARY_OUTPUT_DIRECTORY}/libkiln_clang.so SYMBOLIC)
elseif(KILN_LLVM)
  add_subdirectory(${PROJECT_SOURCE_DIR}/runtime/clang runtime_clang)
endif()
set_source_files_properties(${PROJECT_SOURCE_DIR}/runtime/cpu/clang_install_dir.cpp PROPERTIES
                            COMPILE_DEFINITIONS KILN_CLANG_INSTALL_DIR="${clang_install_dir}")
