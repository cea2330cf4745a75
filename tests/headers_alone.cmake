# Every header compiles by itself: one translation unit a header, part of the ordinary build.
# A C header of the public face is compiled as C too.
set(units "")
foreach(folder include/kiln generator runtime tuner cache engine bench cli tests/support)
  file(GLOB headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}
       ${PROJECT_SOURCE_DIR}/${folder}/*.h ${PROJECT_SOURCE_DIR}/${folder}/*.hpp)
  foreach(header IN LISTS headers)
    string(MAKE_C_IDENTIFIER ${header} id)
    set(languages cpp)
    if(header STREQUAL "include/kiln/kiln.h")
      list(APPEND languages c)
    endif()
    foreach(language IN LISTS languages)
      set(unit ${CMAKE_BINARY_DIR}/generated/headers/${id}.${language})
      file(CONFIGURE OUTPUT ${unit} CONTENT "#include \"${PROJECT_SOURCE_DIR}/${header}\"\n")
      list(APPEND units ${unit})
    endforeach()
  endforeach()
endforeach()
add_library(headers_alone OBJECT ${units})
target_link_libraries(headers_alone PRIVATE kiln_test_support)
# What is proved is that they compile: optimising adds nothing.
target_compile_options(headers_alone PRIVATE -O0)
