# cmake --install into a folder that is then moved: the command runs there, and other projects build against it, by the
# CMake package, by pkg-config, shared and static, in C and C++. The library exports what its header declares.
. "$(dirname "$0")/lib.sh"
build=$(dirname "$dawn9")
prefix="$scratch/a prefix" # a space, as in people's folders
tiny >tiny.yaml
small="train.epochs=1 train.batch_size=32 model.channels=[4,4,8,8] data.synthetic_train=128 data.synthetic_test=64"

accepts cmake --install "$build" --prefix "$scratch/first"
mv "$scratch/first" "$prefix"
library=$(ls "$prefix"/lib/libdawn9.so.*.*.*)

# ---- the commit is that of the sources' own repository, not of one around them ----
mkdir -p "around/it's here" && git init -q around &&
    git -C around -c user.name=x -c user.email=x commit -q --allow-empty -m x || fail "no repository"
accepts cmake "-DSOURCE=$PWD/around" "-DOUT=$PWD/commit.h" -P "$source/cmake/commit.cmake"
has commit.h '^#define D9_COMMIT "[0-9a-f]{12}"$'
accepts cmake "-DSOURCE=$PWD/around/it's here" "-DOUT=$PWD/commit.h" -P "$source/cmake/commit.cmake"
has commit.h '^#define D9_COMMIT "unknown"$'

# ---- symbols ----
sed -n 's/^DAWN9_API .*[ *]\(dawn9_[a-z_]*\)(.*/\1/p' "$prefix/include/dawn9.h" | LC_ALL=C sort >declared
nm -D --defined-only "$library" | awk '{ print $3 }' | LC_ALL=C sort >exported
[ "$(wc -l <declared)" -ge 20 ] || fail "dawn9.h declares only $(wc -l <declared) functions"
diff declared exported >"$err" || fail "libdawn9.so exports something else than dawn9.h declares"
nm -g --defined-only "$prefix/lib/libdawn9.a" | awk 'NF == 3 && $3 !~ /^d9_|^dawn9_/' >"$err"
[ ! -s "$err" ] || fail "libdawn9.a has symbols that are not d9_ or dawn9_"
accepts readelf -p .rodata "$library"
hides 'stb_image_resize[.]h' # an assertion, which would end the program
observe readelf -d "$library"
says 'SONAME.*\[libdawn9\.so\.[0-9]+\.[0-9]+\]'

# ---- the command, in a folder without anything ----
mkdir empty && cd empty || exit 1
accepts "$dawn9" --version
cp "$out" ../version
accepts "$prefix/bin/dawn9" --version
same "$out" ../version "the installed dawn9 --version differs: $(cat "$out")"
says '^backends .*reference'
prints '^title: 01-baseline|^train:' "$prefix/bin/dawn9" config ladder/01-baseline.yaml
# shellcheck disable=SC2086 # one word per key
prints '^accuracy ' "$prefix/bin/dawn9" train synthetic.yaml --threads 1 --out run --quiet $(printf ' --set %s' $small)
rejects 2 'elsewhere.yaml' "$prefix/bin/dawn9" train elsewhere.yaml
for name in synthetic configs/synthetic.yaml configs/ladder/01-baseline ladder/01-baseline 01-baseline; do
    accepts "$prefix/bin/dawn9" config $name
done
accepts "$prefix/bin/dawn9" compare dawn94 configs/speed94.yaml --json
json "$out" 'd["runs"] == ["dawn94", "configs/speed94.yaml"] and d["configuration"]'
rejects 2 'synthtic configs/synthetic.yaml' "$prefix/bin/dawn9" train synthtic
rejects 2 'ladder-smal.yaml experiments/ladder-small.yaml' "$prefix/bin/dawn9" experiment ladder-smal.yaml
rejects 2 'elsewhere.yaml experiments/' "$prefix/bin/dawn9" experiment elsewhere.yaml
rejects 2 "elsewhere elsewhere.yaml experiments/ $prefix/share/dawn9/" "$prefix/bin/dawn9" experiment elsewhere
rejects 2 './synthetic.yaml' "$prefix/bin/dawn9" train ./synthetic.yaml
for name in ladder-small ladder-small.yaml experiments/ladder-small.yaml; do
    prints '"title": "ladder-small"' "$prefix/bin/dawn9" experiment $name --dry-run --json
done
if /usr/bin/python3 -c 'import numpy' 2>/dev/null || omits numpy "there is no Debian python3-numpy"; then
    accepts env PYTHONPATH="$prefix/share/dawn9/tools" /usr/bin/python3 -c 'import dawn9; print(dawn9.__file__)'
    says '^/.*/share/dawn9/tools/dawn9.py$'
    for folder in lib64 lib/x86_64-linux-gnu; do # values of CMAKE_INSTALL_LIBDIR
        mkdir -p "at/$folder" at/share/dawn9
        ln -s "$library" "at/$folder/libdawn9.so" && ln -s "$prefix/share/dawn9/tools" at/share/dawn9
        accepts env PYTHONPATH=at/share/dawn9/tools /usr/bin/python3 -c 'import dawn9'
        rm -r at
    done
fi
# All cases are installed; verifying one shows that the installed folder is found.
cases=$(dirname "$(find "$prefix" -name baseline.safetensors)")
is "$(cd "$cases" && echo *.safetensors)" "$(cd "$source/tests/golden/cases" && echo *.safetensors)" "the installed cases"
find "$cases" -name '*.safetensors' ! -name baseline.safetensors -delete
prints '^1 case: [0-9]+ comparisons ok' "$prefix/bin/dawn9" verify --backend reference --precision f64 --data /nowhere
cd ..

# ---- the examples, by the CMake package ----
runs cmake -S "$source/examples" -B examples "-DCMAKE_PREFIX_PATH=$prefix"
runs cmake --build examples
# shellcheck disable=SC2086
prints '^epoch 1: train loss [0-9.]+, accuracy' examples/train synthetic.yaml model.safetensors threads=1 $small
# the library chooses the same backend as the command, so it finds the modules
chosen=$(awk '/^backends/ { print $2 }' version)
[ "$chosen" != cuda ] || chosen=$(sed -n 's/.*; \([a-z]*\) in f32 on .*/\1/p' "$out") # a CUDA build, perhaps without a GPU
says "; $chosen in f32 on "
trained=$(sed -n 's/^accuracy \([0-9.]*\) on .*/\1/p' "$out")
prints "^accuracy $trained on 64 images" examples/evaluate model.safetensors threads=1
{ printf 'P6 32 32 255\n' && head -c 3072 /dev/zero; } >black.ppm
prints '^[a-z_ ]+ [01]\.[0-9]{3}$' examples/predict model.safetensors black.ppm
cp "$out" predicted
for header in 'P6 32 32 127' 'P6 32 32 65535' 'P6 # a comment\n32 32 255' 'P6 32 31 255' 'P5 32 32 255'; do
    { printf '%b\n' "$header" && head -c 6144 /dev/zero; } >wrong.ppm
    observe examples/predict model.safetensors wrong.ppm
    [ $status = 3 ] && grep -q 'wrong.ppm: not a binary PPM.* 255' "$err" || fail "a wrong picture, $header: status $status"
done
observe examples/train no-such.yaml model.safetensors
[ $status = 2 ] && grep -q 'no-such.yaml: cannot open' "$err" || fail "a wrong configuration: status $status"

# ---- by pkg-config ----
export PKG_CONFIG_PATH="$prefix/lib/pkgconfig"
# eval: pkg-config escapes the space for a shell
eval "accepts cc -Wall -Wextra -Werror '$source/examples/predict.c' -o predict $(pkg-config --cflags --libs dawn9) \
    '-Wl,-rpath,$prefix/lib'"
accepts ./predict model.safetensors black.ppm
same "$out" predicted "the example built by pkg-config predicts otherwise"
checks=$((checks + 1))
[ "$(pkg-config --modversion dawn9)" = "$(awk 'NR == 1 { print $2 }' version)" ] || fail "pkg-config's version"

# ---- static linking; DAWN9_PREFIX tells where the modules are ----
eval "accepts cc '$source/examples/evaluate.c' -o evaluate -I'$prefix/include' '$prefix/lib/libdawn9.a' \
    $(sed -n 's/^Libs.private: //p' "$prefix/lib/pkgconfig/dawn9.pc")"
prints "^accuracy $trained on 64 images" env "DAWN9_PREFIX=$prefix" ./evaluate model.safetensors threads=1 "backend=$chosen"
cp -r "$source/examples" static && sed -i 's/dawn9::dawn9/dawn9::static/' static/CMakeLists.txt
observe cmake -S static -B static "-DCMAKE_PREFIX_PATH=$prefix"
[ $status = 0 ] || fail "cmake does not find dawn9::static"
observe cmake --build static --target predict
[ $status = 0 ] || fail "the examples do not build with dawn9::static"
for program in ./evaluate static/predict; do
    [ -z "$(ldd $program | grep libdawn9)" ] || fail "the static $program needs libdawn9.so"
done

# ---- C++ ----
if command -v c++ >/dev/null || omits cxx "no C++ compiler here"; then
    cat >program.cpp <<'CPP'
#include <dawn9.h>
#include <cstdio>
#include <cstring>
#include <memory>

int main() {
    dawn9_context *opened = nullptr;
    if (dawn9_open(&opened) != DAWN9_OK) return 1;
    std::unique_ptr<dawn9_context, decltype(&dawn9_close)> context(opened, dawn9_close);
    dawn9_model *model = nullptr;
    const bool rejected = dawn9_model_open(context.get(), "program.cpp", nullptr, &model) == DAWN9_DATA;
    std::printf("%s %s\n", dawn9_version(), dawn9_message(context.get()));
    return rejected && !std::strcmp(dawn9_version(), DAWN9_VERSION) ? 0 : 1;
}
CPP
    eval "accepts c++ -Wall -Wextra -Wpedantic -Werror program.cpp -o program \
        $(pkg-config --cflags --libs dawn9) '-Wl,-rpath,$prefix/lib'"
    prints '^[0-9.]+ program.cpp: ' ./program
fi
verdict
