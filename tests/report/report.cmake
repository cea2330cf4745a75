# The page of `kiln report --out`, opened in Chromium where there is one. Python's own library drives
# it; screenshots stay in the build folder.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
add_executable(report_invented report/invented.cpp)
target_link_libraries(report_invented PRIVATE kiln_test_support)
add_dependencies(report_invented kiln_cli)
add_dependencies(kiln_tests report_invented)
add_test(NAME report_page_test
  COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/report/page_test.py
          $<TARGET_FILE:kiln_cli> $<TARGET_FILE:report_invented> ${CMAKE_BINARY_DIR}/screenshots)
# It takes the time that the page needs, so nothing runs beside it.
set_tests_properties(report_page_test PROPERTIES LABELS unit PROCESSORS 2
                     SKIP_RETURN_CODE 77)
