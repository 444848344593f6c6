/* runnel: inference of decoder language models on the CPU, as an unbounded stream.
 *
 * This header is the whole library. It is C, every handle is opaque, and nothing here prints, exits, aborts,
 * throws or reads the environment: a call that cannot do its work returns a status other than RUNNEL_OK, and
 * runnel_last_error() then says what was expected, what was found and where. A handle that it was to give is
 * then NULL.
 *
 *   runnel_model* model;
 *   runnel_session* session;
 *   if (runnel_model_open("model.gguf", NULL, &model)) return fail(runnel_last_error());
 *   if (runnel_session_open(model, NULL, &session)) return fail(runnel_last_error());
 *   runnel_session_feed_text(session, "Once upon a time", 16, RUNNEL_ADD_BOS);
 *   runnel_session_generate(session, 60, print_piece, NULL, NULL);
 *
 * Threads: a model is immutable once open and may be shared by any number of sessions on any threads. A
 * session and a config belong to one thread at a time; only runnel_session_stop() may be called from
 * elsewhere, a signal handler included. A session's own threads begin with its first work, on the cores that
 * the calling thread may run on, and end when it is closed; those of another call end with it. In a process
 * that was forked a session starts its own anew, for threads are not inherited. A thread that is cancelled
 * (pthread_cancel) amid a call, or in a callback, is so after the call.
 *
 * Files that are read are mapped. They must not be cut short or written to while a model is open or a call
 * reads them, for which the system would end the process (SIGBUS); to replace one, rename another over it.
 *
 * Callbacks run on the thread of the call that they were given to, and must not throw. They may ask that
 * session and its chat, set, save and stop; what would change what is read is RUNNEL_BAD_ARGUMENT there, and
 * to close it, or a chat, is not allowed. (Those of runnel_session_observe run on any of the session's
 * threads, and must not call it at all.)
 *
 * A call computes, and its callbacks run, in the default floating-point environment (<fenv.h>: FE_DFL_ENV).
 * That of the caller is as it was afterwards, its exception flags included.
 *
 * Text is UTF-8 with an explicit length in bytes; results that are strings also end in a zero byte.
 * Token ids are int32_t in [0, n_vocab).
 */
#ifndef RUNNEL_H
#define RUNNEL_H

#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#define RUNNEL_API
#else
#define RUNNEL_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- status -------------------------------------------------------------------------------------------- */

typedef enum runnel_status {
  RUNNEL_OK = 0,
  RUNNEL_BAD_ARGUMENT = 1, /* an argument or setting is out of its range, or a pointer is null */
  RUNNEL_IO = 2,           /* the file could not be opened, read or written */
  RUNNEL_BAD_FILE = 3,     /* the file is damaged, truncated or not of the format it claims */
  RUNNEL_UNSUPPORTED = 4,  /* valid, but nothing runnel can run (architecture, tensor type, tokenizer...) */
  RUNNEL_NO_MEMORY = 5,
  RUNNEL_BUFFER_TOO_SMALL = 6, /* the needed size is in the out parameter */
  RUNNEL_STOPPED = 7, /* runnel_session_stop() or a callback ended the work; the session stays usable */
  RUNNEL_INTERNAL = 8 /* a defect of runnel itself */
} runnel_status;

/* A constant, such as "bad file". */
RUNNEL_API const char* runnel_status_name(runnel_status status);

/* The message of the last failed call on this thread; "" before any. Valid until the next call there. */
RUNNEL_API const char* runnel_last_error(void);

/* "major.minor.patch" */
RUNNEL_API const char* runnel_version(void);

/* ---- the machine --------------------------------------------------------------------------------------- */

/* Name of the kernel row that is used where the setting "isa" names none ("avx512", "avx2", "neon",
 * "scalar"...). On a processor with AMX the library asks Linux for the tile registers (arch_prctl,
 * ARCH_REQ_XCOMP_PERM); a process that has them cannot set alternate signal stacks smaller than
 * getauxval(AT_MINSIGSTKSZ) any more, and one that has set such stacks before is refused the registers and
 * runs without. Built without the row "amx" it does not ask. */
RUNNEL_API const char* runnel_isa(void);

/* The i-th kernel row this CPU can run, best first; NULL past the end. A config's "isa" takes these names. */
RUNNEL_API const char* runnel_isa_available(size_t i);

/* OpenBLAS's core name, or "" when built without it. */
RUNNEL_API const char* runnel_blas_core(void);

/* Why OpenBLAS is a poor match for this CPU or is not used, in one sentence; "" when all is well. */
RUNNEL_API const char* runnel_blas_advice(void);

/* Threads a session takes by default: the performance cores this process may run on, within the CPU time that
 * its control group (a container's limit) has. */
RUNNEL_API int32_t runnel_default_threads(void);

/* ---- config -------------------------------------------------------------------------------------------- */

/* All settings of models, sessions and sampling, by name. NULL stands for all defaults wherever a config is
 * taken; configs are copied, so that one may be freed or changed afterwards. */
typedef struct runnel_config runnel_config;

RUNNEL_API runnel_status runnel_config_new(runnel_config** out);
RUNNEL_API void runnel_config_free(runnel_config* config); /* NULL is allowed */

/* Checks and stores a value, written as text ("0.7", "4096", "f16", "true"). A name that does not exist or a
 * value out of range is RUNNEL_BAD_ARGUMENT and leaves the config as it was. */
RUNNEL_API runnel_status runnel_config_set(runnel_config* config, const char* name, const char* value);

/* The value as text, valid until the config is next asked, changed or freed; NULL for an unknown name. */
RUNNEL_API const char* runnel_config_get(const runnel_config* config, const char* name);

/* The settings that exist, i from 0; NULL past the end. Help texts name unit, range and default;
 * `runnel chat --help` prints them (but that of "vocab_only"), with "-" for "_". */
RUNNEL_API const char* runnel_setting_name(size_t i);
RUNNEL_API const char* runnel_setting_help(size_t i);

/* ---- model --------------------------------------------------------------------------------------------- */

typedef struct runnel_model runnel_model;

/* Maps a GGUF file and checks every number in it. With the setting "vocab_only" a file is opened for its
 * tokenizer alone, whatever weights it has, if any; such a model tokenizes but opens no session. */
RUNNEL_API runnel_status runnel_model_open(const char* path, const runnel_config* config, runnel_model** out);

/* Called now and then with the share of the work done, 0 to 1. A result other than 0 stops it
 * (RUNNEL_STOPPED). */
typedef int (*runnel_progress_fn)(void* user, double fraction);

/* The same, for files that take a while to open: with the setting "int8" a model that is not packed is packed
 * in memory, as runnel_quantize does it without a calibration text, and on_progress hears of it. It may be
 * NULL. */
RUNNEL_API runnel_status runnel_model_open_watched(const char* path, const runnel_config* config,
                                                   runnel_progress_fn on_progress, void* user,
                                                   runnel_model** out);

/* The same from caller memory [n_bytes], which must stay unchanged until the model is closed and be aligned
 * to 32 bytes. Nothing is copied, unless the setting "int8" packs it. */
RUNNEL_API runnel_status runnel_model_open_memory(const void* data, size_t n_bytes,
                                                  const runnel_config* config, runnel_model** out);

/* Sessions keep their model alive: closing it first is safe. NULL is allowed. */
RUNNEL_API void runnel_model_close(runnel_model* model);

typedef enum runnel_fact {
  RUNNEL_N_VOCAB,
  RUNNEL_N_EMBD,
  RUNNEL_N_LAYER,
  RUNNEL_N_HEAD,
  RUNNEL_N_HEAD_KV,
  RUNNEL_HEAD_DIM,
  RUNNEL_N_FF,
  RUNNEL_N_CTX_TRAIN,
  RUNNEL_N_EXPERT,
  RUNNEL_N_EXPERT_USED,
  RUNNEL_NATIVE_WINDOW, /* tokens; 0 when no layer has one */
  RUNNEL_N_PARAMETERS,  /* numbers in all tensors; of packed matrices those of the model alone */
  RUNNEL_WEIGHT_BYTES,  /* of all tensors in the file */
  RUNNEL_HAS_WEIGHTS,   /* 0 or 1 */
  RUNNEL_HAS_TOKENIZER, /* 0 or 1 */
  RUNNEL_CAN_STREAM,    /* 0 when positions are learned and the window has to be re-read to go on */
  RUNNEL_TOKEN_BOS,     /* -1 when the model has none; the same for the next two */
  RUNNEL_TOKEN_EOS,
  RUNNEL_TOKEN_EOT,
  RUNNEL_ADDS_BOS,     /* 1 when a text is to start with BOS */
  RUNNEL_DECODE_BYTES, /* of weights that generating a token reads: no other rows of the embedding, no idle
                          experts */
  RUNNEL_PROMPT_MULTIPLY_ADDS /* of the weight matrices with a token of a prompt, not the last one: nothing
                                 but keys and values of the last layer, no output matrix */
} runnel_fact;

RUNNEL_API int64_t runnel_model_fact(const runnel_model* model, runnel_fact fact);

/* "llama", "qwen3"... and "llama", "gpt2", "bert" or "" (none), as the file names them. */
RUNNEL_API const char* runnel_model_architecture(const runnel_model* model);
RUNNEL_API const char* runnel_model_tokenizer(const runnel_model* model);

/* The metadata of the file, i from 0; keys are NULL past the end. Values as text, long ones shortened for
 * people. Valid as long as the model. */
RUNNEL_API const char* runnel_model_meta_key(const runnel_model* model, size_t i);
RUNNEL_API const char* runnel_model_meta_value(const runnel_model* model, size_t i);

/* The tensors of the file, i from 0; names are NULL past the end. */
RUNNEL_API const char* runnel_model_tensor_name(const runnel_model* model, size_t i);
RUNNEL_API const char* runnel_model_tensor_type(const runnel_model* model, size_t i); /* "F16", "Q8_0"... */
RUNNEL_API int64_t runnel_model_tensor_bytes(const runnel_model* model, size_t i);
/* Extent of dimension dim (0 is the contiguous one); 1 past the tensor's rank. */
RUNNEL_API int64_t runnel_model_tensor_dim(const runnel_model* model, size_t i, size_t dim);

/* Bytes a session with this config will take: its cache and its scratch, without the weights. */
RUNNEL_API runnel_status runnel_model_session_bytes(const runnel_model* model, const runnel_config* config,
                                                    int64_t* cache_bytes, int64_t* scratch_bytes);

/* ---- tokens -------------------------------------------------------------------------------------------- */

typedef enum runnel_token_flags {
  RUNNEL_TEXT_ONLY = 0, /* special tokens spelled in the text are ordinary text: right for what users type */
  RUNNEL_ADD_BOS = 1,   /* put BOS (and, where the model wants it, EOS) as the model's file says */
  RUNNEL_PARSE_SPECIAL = 2 /* special tokens spelled in the text become those tokens */
} runnel_token_flags;

/* The ids of a text. *n_tokens is their number, also where `capacity` has no room for them: none is written
 * then (RUNNEL_BUFFER_TOO_SMALL); call again. tokens may be NULL when capacity is 0. */
RUNNEL_API runnel_status runnel_tokenize(const runnel_model* model, const char* text, size_t n_bytes,
                                         unsigned flags, int32_t* tokens, size_t capacity, size_t* n_tokens);

/* Text of a token sequence, by the same rules, without a zero byte at its end; special tokens are spelled out
 * when `special` is not 0. An id that is none of the model's is RUNNEL_BAD_ARGUMENT. The blank that many
 * vocabularies put in front of a text goes, and a character may take several tokens: tokens one by one do not
 * add up to their text, which runnel_session_generate gives piece by piece. */
RUNNEL_API runnel_status runnel_detokenize(const runnel_model* model, const int32_t* tokens, size_t n_tokens,
                                           int special, char* text, size_t capacity, size_t* n_bytes);

/* ---- session ------------------------------------------------------------------------------------------- */

/* One stream of tokens through a model: its cache (pinned prefix + sliding window), sampler and position. */
typedef struct runnel_session runnel_session;

RUNNEL_API runnel_status runnel_session_open(const runnel_model* model, const runnel_config* config,
                                             runnel_session** out);
RUNNEL_API void runnel_session_close(runnel_session* session); /* NULL is allowed */

/* Forgets all tokens, and what was pinned; settings stay, the sampler starts again from its seed. */
RUNNEL_API runnel_status runnel_session_reset(runnel_session* session);

/* Makes the first n_tokens of the stream stay for ever, in place of the setting "sinks". For a session that
 * has read nothing yet; memory may be taken. The cache stays as large as it is: what is pinned is taken out
 * of the window, of which a token at least must be left (RUNNEL_BAD_ARGUMENT). After an error all is as it
 * was. */
RUNNEL_API runnel_status runnel_session_pin(runnel_session* session, int64_t n_tokens);

/* An exchange begins with the token read next. With the setting "evict" at "turn" a full window loses whole
 * exchanges, the oldest first and as few as will do; only one that is larger than the window loses tokens.
 * Chats mark their exchanges themselves. */
RUNNEL_API runnel_status runnel_session_mark_turn(runnel_session* session);

/* Forgets the tokens from `position` on: it is the next one's again. Possible for positions in the pinned
 * prefix and for those the cache still holds, from RUNNEL_STAT_HELD_FROM on (else RUNNEL_BAD_ARGUMENT, and
 * nothing changes), which is up to "batch" - 1 tokens more than the window; the rest stays lost. The
 * sampler's penalties count what is then seen, its random numbers go on. The token before `position` is read
 * again for its logits; where it is not held there are none until the next feed. Layers with a window of
 * their own (RUNNEL_NATIVE_WINDOW) that is smaller than the session's keep no more than it and a "batch":
 * where more tokens are taken back, all that is then seen is read again. A stop in the middle of that is
 * RUNNEL_STOPPED, and the stream then ends where it was. */
RUNNEL_API runnel_status runnel_session_rewind(runnel_session* session, int64_t position);

/* The ids of the tokens that the model sees, in order: the prefix, then the window. *n_tokens is
 * their number (RUNNEL_STAT_CACHE_USED), also where `capacity` has no room for them: none is written then
 * (RUNNEL_BUFFER_TOO_SMALL). tokens may be NULL when capacity is 0. */
RUNNEL_API runnel_status runnel_session_visible(const runnel_session* session, int32_t* tokens,
                                                size_t capacity, size_t* n_tokens);

/* Changes one setting of a running session: the sampler's settings, "stop", "ignore_eos", "threads", "evict"
 * and "overflow". The others need a new session (RUNNEL_BAD_ARGUMENT). */
RUNNEL_API runnel_status runnel_session_set(runnel_session* session, const char* name, const char* value);
/* The value as text, valid until the next call of this function for the session; NULL for an unknown name. */
RUNNEL_API const char* runnel_session_get(const runnel_session* session, const char* name);

/* Called once per token fed, in order, with the logits [n_vocab] that predict the token after it. The pointer
 * is valid during the call. A result other than 0 stops the work (RUNNEL_STOPPED) when the batch at hand is
 * read, so that the session may be some tokens further on. */
typedef int (*runnel_logits_fn)(void* user, int64_t position, const float* logits);

/* Reads tokens. Any number of them: those beyond the window stream through it, or, with the setting
 * "overflow" at "error", nothing is read (RUNNEL_BAD_ARGUMENT). With on_logits NULL only the last token's
 * logits are computed. */
RUNNEL_API runnel_status runnel_session_feed(runnel_session* session, const int32_t* tokens, size_t n_tokens,
                                             runnel_logits_fn on_logits, void* user);

/* Tokenizes and reads. */
RUNNEL_API runnel_status runnel_session_feed_text(runnel_session* session, const char* text, size_t n_bytes,
                                                  unsigned flags);

/* Logits [n_vocab] after the last token read; NULL before the first. Valid until the session next reads. */
RUNNEL_API const float* runnel_session_logits(const runnel_session* session);

/* Chooses the next token by the session's sampler, without reading it. RUNNEL_BAD_FILE where no logit is a
 * number: weights are damaged. */
RUNNEL_API runnel_status runnel_session_sample(runnel_session* session, int32_t* token);

/* A piece of generated text: whole UTF-8 characters, never half of one. One that is not whole after n_tokens
 * comes with what is generated next, before anything else is read. A result other than 0 ends the
 * generation (RUNNEL_OK, with RUNNEL_FINISH_STOPPED). `token` is the last token that went into the piece. */
typedef int (*runnel_text_fn)(void* user, const char* text, size_t n_bytes, int32_t token);

typedef enum runnel_finish {
  RUNNEL_FINISH_LENGTH = 0,    /* n_tokens were generated */
  RUNNEL_FINISH_END = 1,       /* the model ended its text or its turn */
  RUNNEL_FINISH_STOP_TEXT = 2, /* one of the setting "stop" came up, or a chat form's end of an answer that is
                                * a text; it is not part of the text */
  RUNNEL_FINISH_STOPPED = 3    /* runnel_session_stop() or the callback */
} runnel_finish;

/* Samples and reads up to n_tokens tokens (-1: without end), giving text as it comes. Ends at the model's
 * end-of-text or end-of-turn token unless the setting "ignore_eos" is true. finish may be NULL. A call goes
 * on with the text of the one before, unless anything else was read: of a stop text that they share, what
 * the one before gave stays given. */
RUNNEL_API runnel_status runnel_session_generate(runnel_session* session, int64_t n_tokens,
                                                 runnel_text_fn on_text, void* user, runnel_finish* finish);

/* From now on, while a call of the session or its chat reads tokens (not while it generates), on_progress
 * hears after each batch which share of them is read; NULL: nobody does. A result other than 0 is a
 * runnel_session_stop(). For prompts that take a while: a slow processor reads some ten tokens a second. */
RUNNEL_API runnel_status runnel_session_on_progress(runnel_session* session, runnel_progress_fn on_progress,
                                                    void* user);

/* Ends the running call of the session or its chat after the token at hand or, in a batch of several, after a
 * layer: that batch counts as not read. While it reads it returns RUNNEL_STOPPED, while it generates it
 * finishes with RUNNEL_FINISH_STOPPED. (Not while a model with learned positions reads its window again, nor
 * while a chat takes back a message that was not read to its end: what is seen may be read again for that.)
 * Safe from any thread and from signal handlers; without effect when nothing runs. */
RUNNEL_API void runnel_session_stop(runnel_session* session);

typedef enum runnel_stat {
  RUNNEL_STAT_POSITION,   /* tokens read since the start or the last reset */
  RUNNEL_STAT_CACHE_USED, /* tokens the model still sees */
  RUNNEL_STAT_CACHE_SIZE, /* prefix + window, tokens */
  RUNNEL_STAT_PREFIX,     /* tokens pinned for ever: the sinks, or what was pinned */
  RUNNEL_STAT_EVICTED,    /* tokens that have left the window */
  RUNNEL_STAT_CACHE_BYTES,
  RUNNEL_STAT_SCRATCH_BYTES,
  RUNNEL_STAT_FED_TOKENS, /* read as prompt, and the microseconds that took */
  RUNNEL_STAT_FED_US,
  RUNNEL_STAT_GENERATED_TOKENS, /* generated, and the microseconds that took */
  RUNNEL_STAT_GENERATED_US,
  RUNNEL_STAT_REREAD_TOKENS, /* read again: positions are learned (RUNNEL_CAN_STREAM is 0), or
                                runnel_session_rewind says so */
  RUNNEL_STAT_UNSEEN,        /* tokens of the last feed (of what was said last) that it pushed out itself */
  RUNNEL_STAT_TURNS,         /* marked exchanges that the model sees from their beginning */
  RUNNEL_STAT_HELD_FROM      /* the oldest position behind the prefix that can be rewound to */
} runnel_stat;

RUNNEL_API int64_t runnel_session_stat(const runnel_session* session, runnel_stat stat);

/* ---- sessions that come back --------------------------------------------------------------------------- */

/* Writes all that the session's future depends on to a file: the cached keys and values, positions, logits,
 * sampler state, statistics. The file is as large as what the cache holds at the moment. It appears under its
 * name when it is complete and on the disk; until then, and after an error, an older one stays as it was
 * (RUNNEL_IO with the system's reason: a full disk, a folder that cannot be written). Not while the session
 * works on another thread, nor from a runnel_logits_fn (RUNNEL_BAD_ARGUMENT): the cache is ahead of the
 * logits there. */
RUNNEL_API runnel_status runnel_session_save(const runnel_session* session, const char* path);

/* Puts a saved session in place of what this one has read; it then goes on as the saved one would have, to
 * the bit. The two must have the same model (what the file holds counts, not its name), and the same settings
 * "int8", "sinks", "window" and "cache"; else RUNNEL_BAD_ARGUMENT, and the message says which to open the
 * session with. All others may differ and stay as they are here: other sampler settings, and another "batch",
 * "isa" or BLAS, whose arithmetic rounds differently, are what can then make tokens differ. "threads" makes
 * no difference.
 * A file that is damaged, cut short or none of runnel's is RUNNEL_BAD_FILE, one of a newer version
 * RUNNEL_UNSUPPORTED. After any error the session is as it was. Memory is taken only where the saved session
 * pins a longer prefix than this one did so far. Files from people you do not trust do no harm beyond what a
 * stranger's text in the window can do. Not for a session that a chat talks through: see runnel_chat_load. */
RUNNEL_API runnel_status runnel_session_load(runnel_session* session, const char* path);

/* ---- looking inside ------------------------------------------------------------------------------------ */

/* Where in the forward pass a row of activations is. */
typedef enum runnel_site {
  RUNNEL_SITE_STREAM = 0,     /* the residual stream as a layer finds it; n_layer: as the last leaves it */
  RUNNEL_SITE_ATTN_IN = 1,    /* what q, k and v read */
  RUNNEL_SITE_ATTN_OUT = 2,   /* what attention's output matrix reads */
  RUNNEL_SITE_FFN_IN = 3,     /* what the feed-forward network reads */
  RUNNEL_SITE_FFN_HIDDEN = 4, /* what its last matrix reads */
  RUNNEL_SITE_OUTPUT_IN = 5   /* what the output matrix reads (layer n_layer) */
} runnel_site;

/* One token's row [n] at a site; valid during the call. */
typedef void (*runnel_rows_fn)(void* user, runnel_site site, int32_t layer, int64_t position,
                               const float* values, size_t n);
/* The share, 0 to 1, of a query's attention that goes to the pinned prefix (the setting "sinks"). */
typedef void (*runnel_mass_fn)(void* user, int32_t layer, int32_t head, int64_t position, float mass);

/* Shows what the session computes from now on; both callbacks NULL: no more. Either may be NULL. They are
 * called one at a time, from any of the session's threads, while a feed or generate runs, and must not call
 * the session. A token's attention over more than a thousand others is then summed in another order, so that
 * the last bits of what comes out may differ from those of a session that nobody observes. What is read again
 * is shown again; positions that are learned are those in the cache. */
RUNNEL_API runnel_status runnel_session_observe(runnel_session* session, runnel_rows_fn on_rows,
                                                runnel_mass_fn on_mass, void* user);

/* What int8 costs a row of activations [n]: squared error over squared norm, with entries far outside the
 * rest carried in float as runnel's products do (carry not 0), or all of them in int8. NaN for a row that is
 * not finite. */
RUNNEL_API double runnel_int8_error(const float* values, size_t n, int carry);

/* ---- chat ---------------------------------------------------------------------------------------------- */

/* A conversation over a session, in the form the model was trained on. */
typedef struct runnel_chat runnel_chat;

/* The form is the model's own chat template, or the setting "template" (a form's name, see
 * runnel_chat_form_name, or a template text). A model's own that is not recognised is RUNNEL_UNSUPPORTED.
 * The session is borrowed and must outlive the chat; it is reset. Until the chat is closed, what takes
 * something away from under it is RUNNEL_BAD_ARGUMENT: runnel_session_reset, _pin, _rewind, _mark_turn, _load
 * and a second chat. What is fed to the session or generated with it becomes part of the answer
 * for the model, and not of what runnel_chat_message gives; what is fed before anything is said, the first
 * message drops. */
RUNNEL_API runnel_status runnel_chat_open(runnel_session* session, const runnel_config* config,
                                          runnel_chat** out);
/* NULL is allowed. The session keeps what it has read, and how its window moves and what ends an answer,
 * until it is reset or loaded. */
RUNNEL_API void runnel_chat_close(runnel_chat* chat);

/* Known forms, i from 0; NULL past the end. And the one in use. */
RUNNEL_API const char* runnel_chat_form_name(size_t i);
RUNNEL_API const char* runnel_chat_form(const runnel_chat* chat);

/* Starts over with this system prompt (NULL or empty: the form's default, mostly none). It stays for ever:
 * all that comes before what is said first is pinned (see runnel_session_pin). A prompt that leaves no window
 * is RUNNEL_BAD_ARGUMENT and leaves the conversation as it was. */
RUNNEL_API runnel_status runnel_chat_system(runnel_chat* chat, const char* text, size_t n_bytes);

/* The system prompt in use, what was added to it included; "" for none. Valid until it changes. */
RUNNEL_API const char* runnel_chat_system_prompt(const runnel_chat* chat);

/* Adds a line to the system prompt, to be kept for ever. The new prompt is read, and again the whole
 * exchanges that are still seen and fit behind it; RUNNEL_STAT_FED_TOKENS tells how many tokens that took.
 * When that is stopped the conversation is empty; after another error it is as it was. */
RUNNEL_API runnel_status runnel_chat_pin(runnel_chat* chat, const char* text, size_t n_bytes);

/* Reads what the user says and generates the answer, at most n_tokens of it (-1: until the model ends it). A
 * message that could not be read to its end is taken back. */
RUNNEL_API runnel_status runnel_chat_say(runnel_chat* chat, const char* text, size_t n_bytes,
                                         int64_t n_tokens, runnel_text_fn on_text, void* user,
                                         runnel_finish* finish);

/* Reads an exchange that took place elsewhere, what the user said and the answer to it, as if it had taken
 * place here: one of a conversation that is kept as text, or an example of what answers are to be like. The
 * answer is not ended: runnel_chat_continue goes on with it, and the next message ends it. Where the form
 * begins answers with reasoning ("<think>"), one without the end of it ("</think>") stands there without any,
 * as the templates write earlier answers. What could not be read to its end is taken back. */
RUNNEL_API runnel_status runnel_chat_add(runnel_chat* chat, const char* text, size_t n_bytes,
                                         const char* answer, size_t n_answer_bytes);

/* Drops the last answer and generates another. May read again what is seen, as runnel_session_rewind does;
 * when that is stopped the conversation is empty. RUNNEL_BAD_ARGUMENT when there is none, when its question
 * has left the window, or when runnel_chat_continue has gone on past its end. */
RUNNEL_API runnel_status runnel_chat_again(runnel_chat* chat, int64_t n_tokens, runnel_text_fn on_text,
                                           void* user, runnel_finish* finish);

/* Takes back what was said last and its answer; the last exchange is then the one before. May read again what
 * is seen, as runnel_session_rewind does; when that is stopped the conversation is empty. RUNNEL_BAD_ARGUMENT
 * when none is left in the window. */
RUNNEL_API runnel_status runnel_chat_undo(runnel_chat* chat);

/* Generates on from where the conversation stands, through turn ends, each of which counts as a token; for
 * ever when n_tokens is -1. */
RUNNEL_API runnel_status runnel_chat_continue(runnel_chat* chat, int64_t n_tokens, runnel_text_fn on_text,
                                              void* user, runnel_finish* finish);

/* Who says something. */
typedef enum runnel_speaker { RUNNEL_USER = 0, RUNNEL_MODEL = 1 } runnel_speaker;

/* What was said, i from 0 for the newest; NULL past the oldest that is kept: of the last 1024 messages those
 * that hold the last 64 KiB of text, at least. The oldest may have lost its beginning. Valid until the chat
 * is next used. speaker and n_bytes may be NULL. */
RUNNEL_API const char* runnel_chat_message(const runnel_chat* chat, size_t i, runnel_speaker* speaker,
                                           size_t* n_bytes);

/* As runnel_session_save, with the conversation: the system prompt, where exchanges begin, what was said. Nor
 * from a runnel_progress_fn, amid what is read. */
RUNNEL_API runnel_status runnel_chat_save(const runnel_chat* chat, const char* path);

/* As runnel_session_load, for a file of runnel_chat_save (RUNNEL_BAD_ARGUMENT for one without a conversation)
 * and a chat of the same form. */
RUNNEL_API runnel_status runnel_chat_load(runnel_chat* chat, const char* path);

/* ---- quantising ---------------------------------------------------------------------------------------- */

/* Writes the model of a GGUF file (weights in F32, F16, BF16 or Q8_0) with its weights in another type:
 *   "i8"                  runnel's packed int8, 8.25 bits a weight or less. Q8_0 weights go in as they are
 *                         when there is no calibration text.
 *   "q8_0", "f16", "f32"  plain GGUF files that other programs read too
 * calibration [n_bytes] is a text like those the model is for, some 10,000 tokens of which are used ("i8"
 * only); NULL and 0: from the weights alone. Of the config only "threads" and "isa" count. out_path appears
 * when it is complete and is never the file that is read. Memory does not grow with the model. on_progress
 * may be NULL. */
RUNNEL_API runnel_status runnel_quantize(const char* in_path, const char* out_path, const char* type,
                                         const runnel_config* config, const char* calibration, size_t n_bytes,
                                         runnel_progress_fn on_progress, void* user);

/* ---- synthetic models ---------------------------------------------------------------------------------- */

/* Models with random weights in the shape of published ones: as fast and as large, and nothing to download.
 * They hold a tokenizer that knows bytes only. Bytes depend on shape, type and seed alone. Names of the
 * shapes, i from 0; NULL past the end. */
RUNNEL_API const char* runnel_shape_name(size_t i);

/* Makes one in memory and opens it; the model owns that memory. type: "f32", "f16", "bf16" or "q8_0".
 * on_progress may be NULL. */
RUNNEL_API runnel_status runnel_model_synthetic(const char* shape, const char* type, uint64_t seed,
                                                const runnel_config* config, runnel_progress_fn on_progress,
                                                void* user, runnel_model** out);

/* Writes one as a plain GGUF file, which other programs load too. It appears when it is complete. Of the
 * config only "threads" counts. */
RUNNEL_API runnel_status runnel_synthesize(const char* shape, const char* type, uint64_t seed,
                                           const char* path, const runnel_config* config,
                                           runnel_progress_fn on_progress, void* user);

/* ---- limits -------------------------------------------------------------------------------------------- */

/* What the machine can do at best, on the config's "threads" and "isa", to hold a session's speed against:
 * the best of many passes, which take up to two seconds, and several where a large model is read. */

/* Bytes a second at which the model's weights can be read from where they lie, and do nothing else. */
RUNNEL_API runnel_status runnel_measure_read(const runnel_model* model, const runnel_config* config,
                                             double* bytes_per_second);

typedef enum runnel_arithmetic {
  RUNNEL_F32,  /* fused multiply-adds */
  RUNNEL_INT8, /* products of int8 added up in int32; with AMX a prompt's are of bf16, at half this peak */
  RUNNEL_INT16 /* products of int16 added up in int32 */
} runnel_arithmetic;

/* That of most of the model's weight matrices with a prompt of many tokens, with the config's "isa". */
RUNNEL_API runnel_status runnel_model_prompt_arithmetic(const runnel_model* model,
                                                        const runnel_config* config,
                                                        runnel_arithmetic* arithmetic);

/* Multiply-adds a second, on registers alone. */
RUNNEL_API runnel_status runnel_measure_peak(runnel_arithmetic arithmetic, const runnel_config* config,
                                             double* multiply_adds_per_second);

#ifdef __cplusplus
}
#endif

#endif /* RUNNEL_H */
