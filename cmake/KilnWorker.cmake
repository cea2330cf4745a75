# kiln-worker: the process in which candidates run.
file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tuner/worker/program/*.cpp)
add_executable(kiln_worker ${sources})
kiln_unity(kiln_worker)
set_target_properties(kiln_worker PROPERTIES OUTPUT_NAME kiln-worker)
target_link_libraries(kiln_worker PRIVATE kiln_tuner)
