// Models whose file is made in memory and never on a disk: synthetic ones, and those packed when they are
// opened.
#pragma once
#include <memory>
#include <string>

#include "lib/io/gguf_writer.h"
#include "lib/io/memory_output.h"
#include "lib/model.h"

namespace runnel {

// write: a call with a GgufWriter that writes the file to the end, of type Result<void>. The model owns the
// bytes; `name` stands for the file's in messages, and source_path is where they come from, if from a file.
template <class Write>
Result<std::shared_ptr<const Model>> model_in_memory(const std::string& name, const std::string& source_path,
                                                     const Settings& settings, Write write) {
  struct Owner {
    std::shared_ptr<AnonymousMemory> bytes = std::make_shared<AnonymousMemory>();
    std::shared_ptr<const Model> model;  // goes first
  };
  const auto owner = std::make_shared<Owner>();
  RUNNEL_TRY(write(GgufWriter(std::make_unique<MemoryOutput>(owner->bytes, name))));
  RUNNEL_ASSIGN(owner->model, Model::from_memory(owner->bytes->bytes(), settings, name, source_path));
  return std::shared_ptr<const Model>(owner, owner->model.get());
}

}  // namespace runnel
