# Datasets of texts: preview, check and fetch, and their errors.
. "$(dirname "$0")/lib.sh"
printf 'data: {dataset: text, length: 8, vocabulary: 50}\n' >text.yaml
printf 'data: {dataset: imdb, length: 8, check: off}\n' >imdb.yaml

# ---- a folder of class folders: the tokens of ten texts ----
mkdir -p mails/ham mails/spam
i=0 && while [ $i -lt 30 ]; do
    printf 'Hello, hello... number %d!\n' $i >mails/ham/$i.txt
    printf 'BUY now; buy\nbuy number %d' $i >mails/spam/$i.txt
    i=$((i + 1))
done
accepts "$dawn9" data preview text.yaml --data mails
says '^[0-9]+ training texts, [0-9]+ test texts, 37 tokens$' '^mails/(ham|spam)/[0-9]+.txt: (ham|spam), [57] tokens and [13] of padding$' \
    '^  1 4 7 4 4 6 [0-9]+$' '^  1 5 5 6 [0-9]+$' '^  <start> (buy now buy buy|hello hello) number [0-9]+$'
[ "$(grep -c '^mails/' "$out")" = 10 ] || fail "not ten texts: $(cat "$out")"
cp "$out" first
accepts "$dawn9" data preview text.yaml --data mails --threads 2
same first "$out" "another number of threads shows other tokens"

# ---- texts without a word are kept, with one warning; other files are left out ----
printf ' ...\n' >mails/ham/dots.txt && echo >mails/ham/notes.md
runs "$dawn9" data preview text.yaml --data mails
warns '1 text has no word and is kept as <start> alone \(mails/ham/dots.txt\)$'
warns 'mails/ham: 1 file is not .txt and left out$'
lines_are 2 "$err"
rm mails/ham/dots.txt mails/ham/notes.md

# ---- errors ----
rejects 2 '--out --filters text' "$dawn9" data preview text.yaml --data mails --out sheet.png
rejects 2 'data.path --data DIR' "$dawn9" data preview text.yaml
rejects 3 'nowhere' "$dawn9" data preview text.yaml --data nowhere
printf 'caf\351' >mails/ham/latin.txt
rejects 3 'mails/ham/latin.txt UTF-8 --skip-damaged' "$dawn9" data preview text.yaml --data mails
printf 'a\0b' >mails/spam/zero.txt
observe "$dawn9" data preview text.yaml --data mails --skip-damaged
[ $status = 0 ] && [ "$(grep -c 'left out$' "$err")" = 2 ] || fail "damaged texts are not left out: status $status, $(cat "$err")"
rm mails/ham/latin.txt

# ---- the layout of IMDB's archive; files other than reviews are ignored ----
for part in train test; do
    for class in neg pos; do
        mkdir -p aclImdb/$part/$class && for i in 0 1 2 10; do echo "A $class film, number $i" >aclImdb/$part/$class/${i}_7.txt; done
    done
done
mkdir aclImdb/train/unsup && echo 'no class' >aclImdb/train/unsup/0_0.txt && echo >aclImdb/train/labeledBow.feat
accepts "$dawn9" data preview imdb.yaml --data .
says '^8 training texts, 8 test texts, 13 tokens$' '^  1 4 [78] 5 6 [0-9]+$' '^  <start> a neg film number '
rejects 1 'train/neg 89 16302492' "$dawn9" data check imdb --data .
says '^aclImdb/train/neg +wrong size' '^aclImdb/test/pos +wrong size'
rejects 1 'nowhere data.fetch.imdb' "$dawn9" data check imdb --data nowhere
rejects 1 'elsewhere elsewhere/imdb cache/dawn9/imdb data.fetch.imdb' env DAWN9_DATA=elsewhere XDG_CACHE_HOME=cache "$dawn9" data check imdb
rejects 3 'train/neg nowhere data.fetch.imdb' "$dawn9" data preview imdb.yaml --data nowhere
tar -czf given.tar.gz aclImdb
rejects 3 'given.tar.gz train/neg 89 16302492' "$dawn9" data fetch imdb --from given.tar.gz --data fetched
[ ! -e fetched ] || fail "a failed fetch left a folder"
rejects 6 'aclImdb/train/neg --data' "$dawn9" data fetch imdb --from given.tar.gz --data aclImdb

# ---- WikiText-2 under its names or as train.txt, valid.txt and test.txt ----
mkdir -p words/wikitext-2 && echo 'a b c' | tee words/train.txt words/valid.txt >words/wikitext-2/wiki.test.tokens
rejects 1 'words/train.txt 6 10797148' "$dawn9" data check wikitext2 --data words
says '^train.txt +wrong size +6 bytes' '^wikitext-2/wiki.test.tokens +wrong size +6 bytes'
observe "$dawn9" data check wikitext2 --data words --json
json "$out" '[(f["name"], f["read"]) for f in d["files"]][1:] == [("wiki.valid.tokens", "valid.txt"), ("wiki.test.tokens", "wikitext-2/wiki.test.tokens")]'
rejects 1 'nowhere data.fetch.wikitext2' "$dawn9" data check wikitext2 --data nowhere
echo 'model: {name: language, embedding: 4, hidden: 4}' >words.yaml
rejects 3 'wiki.train.tokens nowhere data.fetch.wikitext2' "$dawn9" train words.yaml --set data.dataset=wikitext2 --data nowhere --out none
verdict
