# What several processes tune together: shards, MPI ranks, Slurm jobs. MPI is opened at run time.
kiln_layer(fleet kiln_bench kiln_xxhash nlohmann_json::nlohmann_json)
