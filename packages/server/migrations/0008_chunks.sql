-- What agents say before it is in the log, for readers on other pods. Nothing rests on it: unlogged, so that words cost no WAL,
-- and empty after a crash of PostgreSQL, when the final message is what readers get. body is a JSON array, as text; count says
-- how many chunks it was made of. A turn's rows go when it ends; the leader sweeps what came behind that.
create unlogged table fleetline.chunks (
  tenant int not null,
  turn uuid not null,
  attempt int not null,
  index int not null,
  count int not null,
  body text not null,
  primary key (tenant, turn, attempt, index));

-- A session has one turn of an epoch: found by it, to tell how it ended.
drop index fleetline.turns_session;
create unique index turns_epoch on fleetline.turns (tenant, session, epoch);
