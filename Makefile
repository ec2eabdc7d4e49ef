# selfsample: `make help` tells what can be made.
#
# Everything made lands in $(B). The library is core/*.c and preload/*.c; each of tests/unit/test_*.c
# is a program linked with core alone. Options that change objects (CC, CFLAGS, SAN) rebuild them.

VERSION  := 0.1.0
B        := build
PREFIX   := /usr/local
LIBDIR   := $(PREFIX)/lib
BINDIR   := $(PREFIX)/bin
LIBEXECDIR := $(PREFIX)/libexec
INCDIR   := $(PREFIX)/include
MANDIR   := $(PREFIX)/share/man
COMPLETIONDIR := $(PREFIX)/share/bash-completion/completions
DESTDIR  :=
CFLAGS   := -O2 -g
LDFLAGS  :=
WERROR   :=
SAN      :=
PORTABLE :=
INSTALL  := install
GPERF    := gperf
PYTHON   := python3
CROSS    :=
Q        := $(if $(V),,@)

.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
.SUFFIXES:

# What is installed decides what is built. So it comes first where it is asked for: make starts anew
# once it has made a file that it includes.
.PHONY: deps
ifneq ($(filter deps,$(MAKECMDGOALS)),)
include $(B)/installed.mk
$(B)/installed.mk: $(if $(MAKE_RESTARTS),,always)
	$(Q)scripts/install-deps
	$(Q)mkdir -p $(@D) && touch $@
always:
deps:
	@:
endif

# Another processor's tools, as in CROSS=aarch64-linux-gnu- .
ifneq ($(CROSS),)
CC       := $(CROSS)gcc
AR       := $(CROSS)ar
LD       := $(CROSS)ld
OBJCOPY  := $(CROSS)objcopy
endif

comma    := ,
PROCESSOR := $(firstword $(subst -, ,$(shell $(CC) -dumpmachine 2>/dev/null)))
is_clang := $(findstring clang,$(shell $(CC) --version 2>/dev/null))
WARNINGS := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla \
            $(if $(WERROR),-Werror)
# Quoted includes only, so that no header of ours can stand before one of the system.
COMPILE   = $(CC) -std=gnu11 -D_GNU_SOURCE= $(WARNINGS) -iquote . -iquote core -iquote include \
            -iquote $(B) -MMD -MP $(CFLAGS)

# ---- the library ---------------------------------------------------------------------------------
# It runs where libc may not be entered: no stack protector, no fortified calls, nothing exported
# but what the map names. core/mem.c holds the functions that compilers call by themselves;
# they must not be compiled into calls of themselves.
# Atomic operations are not left to functions of the compiler's library, which ask libc what the
# processor has.
LIB_FLAGS := $(if $(filter aarch64,$(PROCESSOR)),-mno-outline-atomics) -fPIC -fvisibility=hidden -fno-stack-protector -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=0
MEM_FLAGS := -ffreestanding -fno-builtin $(if $(is_clang),,-fno-tree-loop-distribute-patterns)
LIB_LINK  := -shared -Wl,-z,now -Wl,-z,relro -Wl,-z,defs -Wl,-z,noexecstack -Wl,--as-needed \
             -Wl,-soname,libselfsample.so -Wl,--version-script=preload/exports.map
# Older glibcs than the one here have some functions in libraries of their own.
OLD_GLIBC_LINK := -Wl,--no-as-needed -l:libdl.so.2 -l:libpthread.so.0

CORE_SOURCES    := $(wildcard core/*.c)
PRELOAD_SOURCES := $(wildcard preload/*.c)
# Made from core/options.gperf and core/pprof.proto.
GENERATED       := options pprof.pb-c
CORE_OBJECTS    := $(CORE_SOURCES:%.c=$(B)/lib/%.o) $(GENERATED:%=$(B)/lib/%.o)
# What every process and forked child runs comes first in the library: so it lies in few pages, and
# mapping those is a good part of what a short one pays.
FIRST_SOURCES   := preload/init.c preload/hooks.c preload/api.c \
                   $(patsubst %,core/%.c,session births quiet mailbox labels timers helper nap event \
                   engine sampling outpath text mem mapping sequence ring record arena message run)
LIB_OBJECTS     := $(patsubst %.c,$(B)/lib/%.o,$(FIRST_SOURCES) \
                   $(filter-out $(FIRST_SOURCES),$(CORE_SOURCES) $(PRELOAD_SOURCES))) \
                   $(GENERATED:%=$(B)/lib/%.o)
# Core calls nothing of libc's, and is the same for old ones.
OLD_GLIBC_OBJECTS := $(LIB_OBJECTS:$(B)/lib/preload/%=$(B)/portable/preload/%)
ifneq ($(PORTABLE),)
LIB_OBJECTS     := $(OLD_GLIBC_OBJECTS)
endif
# Objects from Debian's static archives.
FOREIGN_OBJECTS :=
include scripts/foreign.mk scripts/demangler.mk scripts/lzma.mk scripts/pprof.mk

# Needs libdw, and is left out without it: the command then says so.
HAS_LIBDW       := $(if $(CROSS),,$(shell pkg-config --exists "libdw >= 0.171" 2>/dev/null && echo yes))
INLINE_OBJECTS  := $(patsubst %.c,$(B)/command/%.o,$(wildcard scripts/inline_*.c))
INLINE          := $(if $(HAS_LIBDW),$(B)/selfsample-inline)

COMMAND_SOURCES := $(filter-out scripts/inline_%,$(wildcard scripts/*.c))
COMMAND_OBJECTS := $(COMMAND_SOURCES:%.c=$(B)/command/%.o)

.PHONY: all
all: $(B)/libselfsample.so $(B)/selfsample $(INLINE)

# $(B)/portable/libselfsample.so is what PORTABLE=1 makes, for the tests.
$(B)/libselfsample.so: $(LIB_OBJECTS)
$(B)/portable/libselfsample.so: $(OLD_GLIBC_OBJECTS)
$(B)/portable/libselfsample.so $(if $(PORTABLE),$(B)/libselfsample.so): LIB_LINK := $(OLD_GLIBC_LINK) $(LIB_LINK)
$(B)/libselfsample.so $(B)/portable/libselfsample.so: $(FOREIGN_OBJECTS) preload/exports.map
	@echo "  LINK    $@"
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) $(LIB_LINK) -o $@ $(filter %.o,$^)

# The command judges its options by core's own reader; the linker takes what that needs.
$(B)/selfsample: $(COMMAND_OBJECTS) $(B)/lib/core.a
	@echo "  LINK    $@"
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(PPROF_ARCHIVES) -lm

$(B)/selfsample-inline: $(INLINE_OBJECTS) $(B)/demangler.o $(B)/lib/core.a
	@echo "  LINK    $@"
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ -ldw

# The page of `selfsample flamegraph` is made of packages of npm, which `make deps` lays down. Without
# them it is empty, and the command says what to do.
WEB           := scripts/web
WEB_SOURCES   := $(WEB)/build-page $(wildcard $(WEB)/*.html $(WEB)/*.css $(WEB)/*.js) \
                 $(WEB)/package-lock.json
WEB_INSTALLED := $(wildcard $(WEB)/node_modules/.package-lock.json)

$(B)/page.html: $(WEB_SOURCES) $(WEB_INSTALLED) $(B)/web
	$(Q)echo "  PAGE    $@$(if $(WEB_INSTALLED),, (left out: no packages of npm; make deps installs them))"
	$(Q)$(if $(WEB_INSTALLED),$(WEB)/build-page,:) >$@

$(B)/command/scripts/view_page.o: $(B)/page.html

$(B)/lib/core.a: $(filter-out %/mem.o,$(CORE_OBJECTS))
	$(Q)rm -f $@ && $(AR) rcs $@ $^

$(B)/options.c: core/options.gperf
	@mkdir -p $(@D)
	@echo "  GPERF   $@"
	$(Q)$(GPERF) --output-file=$@ $<

$(B)/lib/core/mem.o: LIB_FLAGS += $(MEM_FLAGS)
$(B)/lib/pprof.pb-c.o: LIB_FLAGS += -DNDEBUG

$(B)/lib/%.o: %.c $(B)/flags | $(B)/pprof.pb-c.h
	@mkdir -p $(@D)
	@echo "  CC      $@"
	$(Q)$(COMPILE) $(LIB_FLAGS) -c -o $@ $<

$(B)/portable/%.o: %.c $(B)/flags | $(B)/pprof.pb-c.h
	@mkdir -p $(@D)
	@echo "  CC      $@"
	$(Q)$(COMPILE) $(LIB_FLAGS) -include preload/old_glibc.h -c -o $@ $<

$(GENERATED:%=$(B)/lib/%.o): $(B)/lib/%.o: $(B)/%.c $(B)/flags
	@mkdir -p $(@D)
	@echo "  CC      $@"
	$(Q)$(COMPILE) $(LIB_FLAGS) -c -o $@ $<

$(B)/command/%.o: %.c $(B)/flags | $(B)/pprof.pb-c.h
	@mkdir -p $(@D)
	@echo "  CC      $@"
	$(Q)$(COMPILE) $(INSTALLED) -DSELFSAMPLE_PAGE='"$(B)/page.html"' -c -o $@ $<

# These alone know the version and where all is installed, and are made again when that changes.
KNOW_INSTALLED := $(patsubst %,$(B)/command/scripts/%.o,command_inline command_library command_options view_speedscope)
$(KNOW_INSTALLED): $(B)/libdir
$(KNOW_INSTALLED): INSTALLED = -DSELFSAMPLE_VERSION='"$(VERSION)"' -DSELFSAMPLE_LIBDIR='"$(LIBDIR)"' \
    -DSELFSAMPLE_LIBEXECDIR='"$(LIBEXECDIR)"'

# A file that changes when its text does: what is made with other options is made again.
define stamp
.PHONY: always
$(B)/$(1): always
	@mkdir -p $$(@D)
	@echo '$(2)' | cmp -s - $$@ || echo '$(2)' >$$@
endef
$(eval $(call stamp,flags,$(CC) $(CFLAGS) $(WERROR) $(LDFLAGS) $(PORTABLE)))
$(eval $(call stamp,web,$(WEB_INSTALLED)))
$(eval $(call stamp,libdir,$(LIBDIR) $(LIBEXECDIR) $(VERSION)))

# ---- unit tests ----------------------------------------------------------------------------------
# core once more, as a program of the system would have it: libc's memcpy, sanitizers if SAN says so.
U          := $(B)/$(if $(SAN),san-$(subst $(comma),-,$(SAN)),unit)
UNIT_FLAGS := $(if $(SAN),-O1 -fno-omit-frame-pointer -fsanitize=$(SAN) -fno-sanitize-recover=all)
UNIT_CORE  := $(patsubst %.c,$(U)/%.o,$(filter-out core/mem.c,$(CORE_SOURCES))) $(GENERATED:%=$(U)/%.o)
# Those that are named after another processor are left out.
UNIT_OTHER := $(filter-out %_$(PROCESSOR).c,$(wildcard tests/unit/test_*_x86_64.c tests/unit/test_*_aarch64.c))
UNIT_TESTS := $(patsubst tests/unit/%.c,$(U)/%,$(filter-out $(UNIT_OTHER),$(wildcard tests/unit/test_*.c)))

.PHONY: unit
unit: $(UNIT_TESTS)

$(U)/libcore.a: $(UNIT_CORE)
	@echo "  AR      $@"
	$(Q)rm -f $@ && $(AR) rcs $@ $^

$(GENERATED:%=$(U)/%.o): $(U)/%.o: $(B)/%.c $(B)/flags
	@mkdir -p $(@D)
	$(Q)$(COMPILE) $(UNIT_FLAGS) -c -o $@ $<

$(U)/core/%.o: core/%.c $(B)/flags | $(B)/pprof.pb-c.h
	@mkdir -p $(@D)
	@echo "  CC      $@"
	$(Q)$(COMPILE) $(UNIT_FLAGS) -c -o $@ $<

$(U)/test_%.o: tests/unit/test_%.c $(B)/flags
	@mkdir -p $(@D)
	@echo "  CC      $@"
	$(Q)$(COMPILE) -iquote tests/unit $(UNIT_FLAGS) -c -o $@ $<

$(UNIT_TESTS): %: %.o $(U)/libcore.a $(FOREIGN_OBJECTS)
	@echo "  LINK    $@"
	$(Q)$(CC) $(CFLAGS) $(UNIT_FLAGS) $(LDFLAGS) -o $@ $(filter %.o,$^) $(U)/libcore.a

# ---- checks --------------------------------------------------------------------------------------
CHECK_SAN := address,undefined
RULES     := scripts/check-calls scripts/check-cases scripts/check-core-symbols scripts/check-folders scripts/check-glibc
RUN_TESTS  = B=$(B) CC='$(CC)' $(PYTHON) scripts/run-tests

.PHONY: check check-unit check-e2e check-rules check-large unit-sanitized
check: all $(B)/portable/libselfsample.so unit unit-sanitized
	$(Q)$(RUN_TESTS) $(RULES) $(UNIT_TESTS) $(UNIT_TESTS:$(U)/%=$(B)/san-$(subst $(comma),-,$(CHECK_SAN))/%) tests/e2e

check-unit: unit
	$(Q)$(RUN_TESTS) $(UNIT_TESTS)

check-e2e: all $(B)/portable/libselfsample.so
	$(Q)$(RUN_TESTS) $(if $(T),$(T),tests/e2e)

# Cases whose full size takes minutes and gigabytes.
LARGE_TESTS := tests/e2e/test_fork.py tests/e2e/test_dlopen.py
check-large: all
	$(Q)E2E_LARGE=1 $(RUN_TESTS) --timeout 1800 $(LARGE_TESTS)

check-rules: all $(B)/portable/libselfsample.so
	$(Q)$(RUN_TESTS) $(RULES)

# How long stress and fuzz go on; empty: STRESS_SECONDS and FUZZ_SECONDS.
SECONDS        :=
STRESS_SECONDS := 60
FUZZ_SECONDS   := 600

# Everything at once, drawn from SEED.
SEED    :=
.PHONY: environments
environments: all
	$(Q)B=$(B) $(PYTHON) tests/e2e/environments.py

.PHONY: stress
stress: all
	$(Q)B=$(B) $(PYTHON) tests/stress/storm.py --seconds $(or $(SECONDS),$(STRESS_SECONDS)) $(if $(SEED),--seed $(SEED))

unit-sanitized:
	$(Q)$(MAKE) --no-print-directory unit SAN=$(CHECK_SAN)

include scripts/arm64.mk scripts/vm.mk scripts/package.mk

# ---- fuzzing -------------------------------------------------------------------------------------
# Needs clang. New inputs are kept in $(B)/fuzz; what is worth keeping goes to tests/fuzz by hand.
F          := $(B)/fuzz
FUZZ_FLAGS := -O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all
FUZZ_CORE  := $(patsubst %.c,$(F)/%.o,$(filter-out core/mem.c,$(CORE_SOURCES))) $(GENERATED:%=$(F)/%.o)
FUZZERS    := $(patsubst tests/fuzz/%.c,$(F)/%,$(wildcard tests/fuzz/fuzz_*.c))

.PHONY: fuzz
fuzz: $(FUZZERS)
	$(Q)for fuzzer in $^; do corpus=$${fuzzer##*_}; mkdir -p $(F)/new_$$corpus; \
	    $$fuzzer -max_total_time=$$(($(or $(SECONDS),$(FUZZ_SECONDS)) / $(words $(FUZZERS)))) -timeout=10 -rss_limit_mb=2048 \
	        -artifact_prefix=$(F)/$${corpus}_ -print_final_stats=1 -verbosity=0 \
	        $(F)/new_$$corpus tests/fuzz/$$corpus || exit 1; done

$(F)/fuzz_%: $(F)/fuzz_%.o $(FUZZ_CORE) $(FOREIGN_OBJECTS)
	@echo "  LINK    $@"
	$(Q)clang -fsanitize=fuzzer,address,undefined -o $@ $^ -lz

$(F)/fuzz_%.o: tests/fuzz/fuzz_%.c
	@mkdir -p $(@D)
	@echo "  FUZZ    $@"
	$(Q)clang $(filter-out $(firstword $(COMPILE)),$(COMPILE)) $(FUZZ_FLAGS) -fsanitize=fuzzer -c -o $@ $<

$(F)/core/%.o: core/%.c | $(B)/pprof.pb-c.h
	@mkdir -p $(@D)
	@echo "  FUZZ    $@"
	$(Q)clang $(filter-out $(firstword $(COMPILE)),$(COMPILE)) $(FUZZ_FLAGS) -fsanitize=fuzzer-no-link -c -o $@ $<

$(GENERATED:%=$(F)/%.o): $(F)/%.o: $(B)/%.c
	@mkdir -p $(@D)
	$(Q)clang $(filter-out $(firstword $(COMPILE)),$(COMPILE)) $(FUZZ_FLAGS) -c -o $@ $<

# ---- the rest ------------------------------------------------------------------------------------
FORMATTED := $(wildcard core/*.[ch] preload/*.[ch] include/*.h scripts/*.[ch] tests/*/*.[ch] examples/*.c)

.PHONY: demo screenshot examples bench bench-unwind format format-check install uninstall clean help
demo: all
	$(Q)B=$(B) scripts/demo

# README's picture, which a test takes.
screenshot: all
	$(Q)B=$(B) SCREENSHOT=examples/flamegraph.png $(PYTHON) tests/e2e/test_flamegraph.py picture

examples: $(patsubst examples/%.c,$(B)/examples/%,$(wildcard examples/*.c))

$(B)/examples/%: examples/%.c
	@mkdir -p $(@D)
	@echo "  CC      $@"
	$(Q)$(CC) $(WARNINGS) $(CFLAGS) -Iinclude -pthread $(LDFLAGS) -o $@ $<

bench: all
	$(Q)B=$(B) CC='$(CC)' $(PYTHON) scripts/bench
	$(Q)B=$(B) CC='$(CC)' $(PYTHON) scripts/bench-calls

# Core's objects as the library has them, its own memcpy included.
$(B)/bench/unwind: tests/bench/unwind.c $(CORE_OBJECTS) $(FOREIGN_OBJECTS)
	@mkdir -p $(@D)
	@echo "  CC      $@"
	$(Q)$(COMPILE) $(LDFLAGS) -o $@ $(filter %.c %.o,$^)

bench-unwind: $(B)/bench/unwind
	$(Q)$<

format:
	$(Q)clang-format -i $(FORMATTED)

format-check:
	$(Q)clang-format --dry-run --Werror $(FORMATTED)

PAGES := $(wildcard scripts/*.1)

install: all
	$(Q)$(INSTALL) -d $(DESTDIR)$(LIBDIR)/pkgconfig $(DESTDIR)$(BINDIR) $(DESTDIR)$(INCDIR) $(DESTDIR)$(MANDIR)/man1
	$(Q)$(INSTALL) -m 755 $(B)/libselfsample.so $(DESTDIR)$(LIBDIR)/libselfsample.so
	$(Q)$(INSTALL) -m 755 $(B)/selfsample $(DESTDIR)$(BINDIR)/selfsample
	$(if $(INLINE),$(Q)$(INSTALL) -d $(DESTDIR)$(LIBEXECDIR))
	$(if $(INLINE),$(Q)$(INSTALL) -m 755 $(INLINE) $(DESTDIR)$(LIBEXECDIR)/selfsample-inline)
	$(Q)$(INSTALL) -m 644 include/selfsample.h $(DESTDIR)$(INCDIR)/selfsample.h
	$(Q)$(INSTALL) -m 644 $(PAGES) $(DESTDIR)$(MANDIR)/man1/
	$(Q)$(INSTALL) -d $(DESTDIR)$(COMPLETIONDIR)
	$(Q)$(INSTALL) -m 644 scripts/selfsample.bash $(DESTDIR)$(COMPLETIONDIR)/selfsample
	$(Q)sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@LIBDIR@|$(LIBDIR)|' -e 's|@INCDIR@|$(INCDIR)|' \
	    -e 's|@VERSION@|$(VERSION)|' scripts/selfsample.pc.in >$(B)/selfsample.pc
	$(Q)$(INSTALL) -m 644 $(B)/selfsample.pc $(DESTDIR)$(LIBDIR)/pkgconfig/selfsample.pc

uninstall:
	$(Q)rm -f $(DESTDIR)$(LIBDIR)/libselfsample.so $(DESTDIR)$(BINDIR)/selfsample \
	    $(DESTDIR)$(LIBEXECDIR)/selfsample-inline $(DESTDIR)$(INCDIR)/selfsample.h \
	    $(PAGES:scripts/%=$(DESTDIR)$(MANDIR)/man1/%) $(DESTDIR)$(COMPLETIONDIR)/selfsample \
	    $(DESTDIR)$(LIBDIR)/pkgconfig/selfsample.pc

clean:
	$(Q)rm -rf $(B)

help:
	@echo 'make               the library and the command, in $(B)/'
	@echo 'make deps          install what building and testing need: packages of Debian and of npm'
	@echo 'make demo          profile real programs, leave pictures in $(B)/demo/'
	@echo 'make screenshot    take the picture in README anew; needs chromium'
	@echo 'make examples      small programs worth profiling, in $(B)/examples/'
	@echo 'make check         all tests: rules, unit (plain and sanitized), end to end'
	@echo 'make check-unit    unit tests alone; also SAN=address,undefined or SAN=thread'
	@echo 'make check-e2e     end-to-end tests alone; T=tests/e2e/test_x.py: that one'
	@echo 'make check-large   cases of forks, memory and exceptions in full size: minutes, and 12 GB of memory'
	@echo 'make check-rules   what may call, export and include what'
	@echo 'make environments  the table of README: what is had where something is refused; as root'
	@echo 'make arm64         the library for AArch64, in $(B)/arm64; check-arm64: its unit tests, under qemu'
	@echo 'make check-arm64-vm  whole runs on an AArch64 kernel in an emulated machine: minutes; T=name: those tests'
	@echo 'make check-vm      the same on the kernel of Debian 12, and unit tests: an hour where no KVM works; T="root:unit e2e/test_exit"'
	@echo 'make stress        everything at once, for SECONDS=$(STRESS_SECONDS), drawn from SEED (the time)'
	@echo 'make bench         measure what profiling costs'
	@echo 'make bench-unwind  measure what a frame and a stack cost'
	@echo 'make fuzz          damaged bytes to all readers, for SECONDS=$(FUZZ_SECONDS); needs clang'
	@echo 'make format        clang-format; format-check: only tell'
	@echo 'make install       below PREFIX ($(PREFIX)), with DESTDIR in front; uninstall'
	@echo 'make dist          the sources, as $(B)/selfsample-$(VERSION).tar.gz'
	@echo 'make deb           a package for Debian, in $(B)/deb/; check-deb: used in a minimal Debian, as root'
	@echo 'make clean         remove $(B)/'
	@echo 'Variables: B=dir CC=clang CROSS=aarch64-linux-gnu- CFLAGS=.. LDFLAGS=.. WERROR=1 SAN=.. PORTABLE=1 PREFIX=.. DESTDIR=.. V=1'

-include $(patsubst %.o,%.d,$(LIB_OBJECTS) $(OLD_GLIBC_OBJECTS) $(COMMAND_OBJECTS) $(INLINE_OBJECTS) $(UNIT_CORE) $(UNIT_TESTS:%=%.o) \
         $(FUZZ_CORE) $(FUZZERS:%=%.o))
