-- Stop. A person may end a turn, also one that runs: then halting is the pod whose agent may still be at work, until its
-- call has ended. The check is wider than the one before: it need not look at the rows that are there.
alter table fleetline.turns
  add column halting int,
  drop constraint turns_outcome_check,
  add constraint turns_outcome_check check (outcome in ('done', 'failed', 'stopped')) not valid;
create index turns_halting on fleetline.turns (halting) where halting is not null;

-- Of a reply that is not what its agent would have made of it: why. By its place in a list of words.
alter table fleetline.messages add column status smallint;

-- A task that was cancelled while no pod had it.
alter table fleetline.task_history alter column pod drop not null;
