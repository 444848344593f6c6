// Prints what the README's section "Int8" shows: int8 against Q8_0, and what outliers do to either.
//   int8-tables [TOKENS]      tokens of each model's test text; default 60,000, half of which are scored
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>

#include "tests/int8/quality.h"
#include "tests/support/folder.h"
#include "tests/support/paths.h"

namespace runnel::test {
namespace {

namespace fs = std::filesystem;

std::string read_part(const std::string& path, std::size_t begin, std::size_t n) {
  std::ifstream in(path, std::ios::binary);
  in.seekg(static_cast<std::streamoff>(begin));
  std::string text(n, '\0');
  in.read(text.data(), static_cast<std::streamsize>(n));
  text.resize(static_cast<std::size_t>(in.gcount()));
  return text;
}

// The dialogues of lines [first, first + n) in the demo model's form.
std::string dialogues(std::size_t first, std::size_t n) {
  std::ifstream in(shared("text/sgd_test.jsonl"));
  std::string line, text;
  for (std::size_t i = 0; std::getline(in, line) && i < first + n; ++i) {
    if (i < first) continue;
    // {"speaker": "USER", "text": "..."}: the texts hold escaped quotes at most.
    const std::string speaker = "\"speaker\": \"", said = "\"text\": \"";
    for (std::size_t at = line.find(speaker); at != std::string::npos; at = line.find(speaker, at)) {
      at += speaker.size();
      text += line.compare(at, 4, "USER") == 0 ? "<|user|>" : "<|assistant|>";
      at = line.find(said, at) + said.size();
      for (; at < line.size() && line[at] != '"'; ++at) {
        if (line[at] == '\\') ++at;
        text += line[at];
      }
      text += "<|end|>";
    }
    text += "\n";
  }
  return text;
}

struct Subject {
  const char* name;
  std::string path;
  std::string test, calibration;  // texts; no part in common
  std::size_t n_chunk;
};

std::vector<Subject> subjects() {
  const std::string stories = shared("text/tinystories_val_decoded.txt");
  const std::size_t n_test = 400'000, n_calibration = 60'000, calibration_begin = 800'000;
  const std::string test = read_part(stories, 100'000, n_test),
                    calibration = read_part(stories, calibration_begin, n_calibration);
  return {{"demo", shared("models/demo/runnel-demo-f32.gguf"), dialogues(0, 1500),
           dialogues(2000, 120) + read_part(stories, calibration_begin, 6'000), 512},
          {"stories260K", shared("models/stories260K-f32.gguf"), test, calibration, 512},
          {"babyllama", shared("models/babyllama-f32.gguf"), test, calibration, 256}};
}

class Tables {
 public:
  explicit Tables(std::size_t n_tokens) : n_tokens_(n_tokens) {}

  void print() {
    for (const Subject& subject : subjects()) {
      if (!fs::exists(subject.path)) {
        std::printf("%s: %s is not here\n", subject.name, subject.path.c_str());
        continue;
      }
      print_quality(subject);
    }
    for (const Subject& subject : subjects())
      if (fs::exists(subject.path)) print_outliers(subject);
  }

 private:
  std::string path(const char* name) const { return folder_.file(name); }

  static std::size_t n_ff(const std::string& model) {
    const auto file = GgufFile::open(model);
    return file ? file->find_tensor("blk.0.ffn_down.weight")->dims[0] : 0;
  }

  static ChangeRow int8(std::size_t block, bool scale_is_f16) {
    return [=](float* row, std::size_t n) { round_to_int8(row, n, block, scale_is_f16); };
  }

  // llama.cpp's Q8_0 arithmetic. ffn_down_f16: as its tool does where n_ff is no multiple of 32.
  ModelRun q8_0(const std::string& in, bool ffn_down_f16 = false) {
    const ChangeRow block = int8(32, true);
    write_rounded(in, path("q8_0"), block, ffn_down_f16 ? ChangeRow(round_to_f16) : block);
    ModelRun run{path("q8_0"), {}};
    run.changes.reads = block;
    if (ffn_down_f16) run.changes.reads_hidden = round_to_f16;
    return run;
  }
  ModelRun per_row(const std::string& in) {
    write_rounded(in, path("per_row"), int8(0, false), int8(0, false));
    ModelRun run{path("per_row"), {}};
    run.changes.reads = int8(0, false);
    return run;
  }
  ModelRun own(const std::string& in, const std::string& calibration) {
    pack(in, path("i8"), calibration);
    return {path("i8"), {}};
  }

  static void line(const char* what, const Figures& f) {
    std::printf("| %s | %.3f | %.2f | %.1f | %.3f +/- %.3f | %+.4f |\n", what, 1e4 * f.kl, 1e4 * f.kl_99,
                1e4 * f.kl_max, 100 * f.same_top, 100 * f.same_top_error, 100 * f.ln_ppl);
    std::fflush(stdout);
  }

  void print_quality(const Subject& subject) {
    const auto chunks = chunks_of(subject.path, subject.test, subject.n_chunk, n_tokens_ / subject.n_chunk);
    std::printf("\n%s, %zu tokens scored. KL in 1e-4 nats\n\n", subject.name,
                chunks.size() * (subject.n_chunk / 2 - 1));
    std::printf("| | mean KL | 99 %% | max | same top %% | ln PPL ratio %% |\n|---|---|---|---|---|---|\n");
    ModelRun base{subject.path, {}};
    const auto row = [&](const char* what, ModelRun run) { line(what, compare(base, run, chunks)); };
    row("Q8_0 x Q8_0", q8_0(subject.path));
    // llama.cpp's tool keeps rows that are no whole blocks in F16; above, their last block is shorter.
    if (n_ff(subject.path) % 32 != 0) row("Q8_0 x Q8_0, ffn_down F16 x F16", q8_0(subject.path, true));
    row("int8 a row, int8 a token", per_row(subject.path));
    row("i8", own(subject.path, ""));
    row("i8 calibrated", own(subject.path, subject.calibration));
  }

  void print_outliers(const Subject& subject) {
    const auto chunks =
        chunks_of(subject.path, subject.test, subject.n_chunk, n_tokens_ / 10 / subject.n_chunk);
    ModelRun base{subject.path, {}};
    std::printf("\n%s, 3 channels of every product carry s times more: mean KL in 1e-4 nats\n\n",
                subject.name);
    std::printf("| s | int8 a row | Q8_0 | i8 | i8 calibrated |\n|---|---|---|---|---|\n");
    for (const float s : {1.0f, 10.0f, 100.0f, 1000.0f, 10000.0f}) {
      write_with_outliers(subject.path, path("outliers"), s, 3);
      const std::string in = path("outliers");
      std::printf("| %g ", static_cast<double>(s));
      for (ModelRun run : {per_row(in), q8_0(in)}) cell(compare(base, run, chunks));
      for (const std::string& calibration : {std::string(), subject.calibration}) {
        ModelRun run = own(in, calibration);
        cell(compare(base, run, chunks));
      }
      std::printf("|\n");
    }
    std::printf("\n%s, one entry in 64 tokens k times the median: mean KL in 1e-4 nats\n\n", subject.name);
    std::printf("| k | int8 a row | Q8_0 | i8 |\n|---|---|---|---|\n");
    for (const double k : {0.0, 1e3, 1e4, 1e6}) {
      std::printf("| %g ", k);
      base.changes.stream_factor = k;
      for (ModelRun run : {per_row(subject.path), q8_0(subject.path), own(subject.path, "")}) {
        run.changes.stream_factor = k;
        cell(compare(base, run, chunks));
      }
      std::printf("|\n");
    }
  }

  static void cell(const Figures& f) {
    std::printf("| %.3f%s ", 1e4 * f.kl, f.finite ? "" : " (not finite)");
    std::fflush(stdout);
  }

  std::size_t n_tokens_;
  Folder folder_;
};

}  // namespace
}  // namespace runnel::test

int main(int argc, char** argv) {
  try {
    runnel::test::Tables(argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 60'000).print();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "int8-tables: %s\n", error.what());
    return 1;
  }
}
