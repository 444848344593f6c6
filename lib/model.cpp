#include "lib/model.h"

#include "lib/model_loader.h"
#include "lib/rope_loader.h"
#include "lib/text/printable.h"
#include "lib/unsupported_keys.h"

namespace runnel {
namespace {

constexpr std::size_t meta_text_chars = 200;

// A vocabulary is read from beside weights of any type.
UnreadTypes unread_types(const Settings& settings) {
  return settings.vocab_only ? UnreadTypes::taken : UnreadTypes::refused;
}

}  // namespace

Result<std::shared_ptr<const Model>> Model::open(const std::string& path, const Settings& settings) {
  RUNNEL_ASSIGN(GgufFile file, GgufFile::open(path, unread_types(settings)));
  return load(std::move(file), path, settings);
}

Result<std::shared_ptr<const Model>> Model::from_memory(std::span<const std::byte> bytes,
                                                        const Settings& settings, const std::string& name,
                                                        const std::string& source_path) {
  RUNNEL_ASSIGN(GgufFile file, GgufFile::parse(bytes, name, unread_types(settings)));
  return load(std::move(file), source_path, settings);
}

Result<std::shared_ptr<const Model>> Model::load(GgufFile file, const std::string& source_path,
                                                 const Settings& settings) {
  std::shared_ptr<Model> model(new Model(std::move(file), source_path));
  const GgufFile& f = model->file_;
  for (const auto& [key, value] : f.metadata())
    model->meta_.emplace_back(key, to_text(value, meta_text_chars));
  for (const GgufTensor& tensor : f.tensors()) model->tensor_names_.emplace_back(tensor.name);
  if (!settings.vocab_only) {
    RUNNEL_TRY(refuse_other_kinds(f));
    RUNNEL_TRY(refuse_part(f));  // first: only part 1 names the architecture
  }
  RUNNEL_ASSIGN(model->architecture_, f.get_string("general.architecture"));

  RUNNEL_ASSIGN(const std::string_view kind, f.get_string("tokenizer.ggml.model", "no_vocab"));
  if (kind != "no_vocab" && kind != "none") {
    RUNNEL_ASSIGN(model->tokenizer_, Tokenizer::load(f));
    model->tokenizer_kind_ = kind;
  }

  if (settings.vocab_only) {
    if (!model->tokenizer_)
      return error(RUNNEL_UNSUPPORTED, "%s: the file holds no tokenizer (tokenizer.ggml.model is %s)",
                   f.name().c_str(),
                   f.find("tokenizer.ggml.model") ? ("\"" + std::string(kind) + "\"").c_str() : "missing");
    return std::shared_ptr<const Model>(model);
  }
  const Family* family = find_family(model->architecture_);
  if (!family)
    return error(RUNNEL_UNSUPPORTED, "%s: architecture \"%s\" is not known; runnel runs %s", f.name().c_str(),
                 printable(model->architecture_, 60).c_str(), family_names());
  if (f.tensors().empty())
    return error(RUNNEL_BAD_FILE, "%s: the file holds a vocabulary only, no weights", f.name().c_str());
  RUNNEL_TRY(refuse_unsupported_keys(f, model->architecture_));
  model->family_ = family;
  RUNNEL_TRY(ModelLoader(*model).load());
  RUNNEL_TRY(model->rope(model->shape_.n_ctx_train));
  RUNNEL_ASSIGN(model->n_ctx_default_,
                RopeLoader(model->file_, model->architecture_, model->shape_).n_ctx_default());
  return std::shared_ptr<const Model>(model);
}

std::size_t Model::n_vocab() const {
  if (has_weights()) return shape_.n_vocab;
  return tokenizer_ ? tokenizer_->n_vocab() : 0;
}

Result<void> Model::check_weights() const {
  if (has_weights()) return {};
  return error(RUNNEL_UNSUPPORTED, "%s: opened for its vocabulary only, without weights to run",
               file_.name().c_str());
}

Result<void> Model::check_tokens(std::span<const Token> tokens) const {
  const auto n = static_cast<Token>(n_vocab());
  for (std::size_t i = 0; i < tokens.size(); ++i)
    if (tokens[i] < 0 || tokens[i] >= n)
      return error(RUNNEL_BAD_ARGUMENT, "token %zu of %zu is %d, expected an id from 0 to %d", i,
                   tokens.size(), tokens[i], n - 1);
  return {};
}

Result<Rope> Model::rope(std::size_t n_ctx) const {
  if (!family_->rotates()) return Rope();
  RUNNEL_ASSIGN(const RopeParams params, RopeLoader(file_, architecture_, shape_).load(n_ctx));
  return Rope(params);
}

}  // namespace runnel
