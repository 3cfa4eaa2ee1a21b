"""What tests share. A test imports from here, and never from another test.

eventually          waiting for what should happen, and for no longer than it may take
processes           the command line as a process; small jobs
clusters            training runs of many processes: started, watched, hit
training/           parts of such runs: coordinators, strategies, ranks; gated data; random faults
data/               small click logs, downloads, plain parsers to compare with
model_jobs          small jobs and inputs that fit every model
versions/           version stores with made-up rows or real models, and trained runs to publish
cubes/              cubes in this process and as processes, their readers, killers of replicas
suites/             `clickline up` as a thread or a process, and random faults on it
serving/            predictors as processes, their clients, HTTP as bytes, request bodies
doubles/            in place of other systems (S3, WebHDFS, FTP, peers on the wire) and of parts of ours
programs/           what tests start as processes of their own
supervised_programs programs that behave as a supervisor must expect
faulty_proxy        a proxy that drops, delays, cuts, duplicates and garbles
bit_flips           a bit that changes in a file
small_disks         a disk that is soon full
ports               ports that nobody else gets
network_hosts       two hosts on one machine, as network namespaces
made_once           what takes long to make, made once for all workers of pytest
page_commands       commands of a documentation page, run in a shell
markdown_links      links and file names of a documentation page
plain_sequence_files  SequenceFiles read in plain Python
fuzz/               how long to fuzz, with which inputs, against what
chaos/              `make chaos`: random faults on a whole suite
key_effects/        `make key-effects`: every key of the job under every strategy
summaries/          what all tests came to, and the table of docs/robustness.md
"""
