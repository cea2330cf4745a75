# Third-party libraries under the names the layers link: kiln_fmt, kiln_spdlog, kiln_hwloc,
# kiln_sqlite, kiln_zstd, kiln_xxhash, kiln_fibers. KILN_STATIC swaps what is behind the names,
# nothing else.
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(SQLiteCpp REQUIRED)
pkg_check_modules(ZSTD REQUIRED IMPORTED_TARGET libzstd)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(HWLOC REQUIRED IMPORTED_TARGET hwloc)
pkg_check_modules(SQLITE3 REQUIRED IMPORTED_TARGET sqlite3)
find_package(Boost 1.74 REQUIRED COMPONENTS context)

foreach(name fmt spdlog hwloc sqlite zstd xxhash fibers)
  add_library(kiln_${name} INTERFACE)
endforeach()

if(NOT KILN_STATIC)
  target_link_libraries(kiln_fmt INTERFACE fmt::fmt)
  target_link_libraries(kiln_spdlog INTERFACE spdlog::spdlog)
  target_link_libraries(kiln_hwloc INTERFACE PkgConfig::HWLOC)
  target_link_libraries(kiln_sqlite INTERFACE SQLiteCpp PkgConfig::SQLITE3)
  target_link_libraries(kiln_zstd INTERFACE PkgConfig::ZSTD)
  target_link_libraries(kiln_xxhash INTERFACE PkgConfig::XXHASH)
  target_link_libraries(kiln_fibers INTERFACE Boost::context)
  return()
endif()

# Only libc and libm stay dynamic: they are on every machine, and dlopen needs them shared.
add_link_options(-static-libstdc++ -static-libgcc)

function(kiln_archive target name)
  find_library(KILN_ARCHIVE_${name} lib${name}.a REQUIRED)
  target_link_libraries(${target} INTERFACE ${KILN_ARCHIVE_${name}})
endfunction()

# Debian has no static fmt and spdlog; both are header-only on request.
target_link_libraries(kiln_fmt INTERFACE fmt::fmt-header-only)
target_compile_definitions(kiln_spdlog INTERFACE SPDLOG_FMT_EXTERNAL)
target_link_libraries(kiln_spdlog INTERFACE fmt::fmt-header-only Threads::Threads)
kiln_archive(kiln_zstd zstd)
kiln_archive(kiln_xxhash xxhash)
kiln_archive(kiln_fibers boost_context)
target_include_directories(kiln_fibers INTERFACE ${Boost_INCLUDE_DIRS})
kiln_archive(kiln_sqlite SQLiteCpp)
kiln_archive(kiln_sqlite sqlite3)
target_compile_definitions(kiln_sqlite INTERFACE SQLITE_ENABLE_COLUMN_METADATA)
target_link_libraries(kiln_sqlite INTERFACE Threads::Threads ${CMAKE_DL_LIBS} m)
# hwloc asks libudev for the names of disks, which kiln never wants; Debian has no static libudev.
add_library(kiln_udev OBJECT ${PROJECT_SOURCE_DIR}/cmake/no_udev.c)
kiln_archive(kiln_hwloc hwloc)
target_sources(kiln_hwloc INTERFACE $<TARGET_OBJECTS:kiln_udev>)
