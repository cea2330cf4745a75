// The sub-commands of `kiln`, one file each. Each adds itself, its options and its manual text.
#pragma once

#include "cli/session.h"

namespace kiln::cli {

void add_devices(CLI::App& app, Session& session);
void add_compile(CLI::App& app, Session& session);
void add_tune(CLI::App& app, Session& session);
void add_bench(CLI::App& app, Session& session);
void add_sweep(CLI::App& app, Session& session);
void add_demo(CLI::App& app, Session& session);
void add_report(CLI::App& app, Session& session);
void add_show(CLI::App& app, Session& session);
void add_explain(CLI::App& app, Session& session);
void add_verify(CLI::App& app, Session& session);
void add_db(CLI::App& app, Session& session);
void add_fleet(CLI::App& app, Session& session);
void add_completion(CLI::App& app, Session& session);
void add_man(CLI::App& app, Session& session);
void add_examples(CLI::App& app, Session& session);

}  // namespace kiln::cli
