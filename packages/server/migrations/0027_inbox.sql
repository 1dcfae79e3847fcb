-- pods from: 17
-- The inbox: what each member has read, and the order of a user's sessions.
-- version counts changes that move neither head nor phase, such as removals of members. failed_epoch: the epoch of the last turn that
-- ended, if it failed. replied: the seq of the last message of the role assistant. Appends change these columns, so no index contains them.
alter table fleetline.sessions
  add column version int not null default 0,
  add column failed_epoch int,
  add column replied int not null default 0;

-- seen_epoch: the turns up to this one had ended when the member last read to the end. day: the UTC day of the session's updated_at,
-- which triggers keep, whichever release writes. A user's newest sessions are found by day, then sorted by time: an index by time
-- would change with every append.
alter table fleetline.members
  add column day date not null default '-infinity',
  add column read int not null default 0,
  add column read_version int not null default 0,
  add column seen_epoch int not null default 0,
  add column archived boolean not null default false,
  set (fillfactor = 85);

-- These functions have the rights of their owner: the role of a pod may be one that the release before used.
create function fleetline.set_day() returns trigger language plpgsql
  security definer set search_path = pg_catalog, pg_temp as $$
begin
  new.day := coalesce((select (s.updated_at at time zone 'UTC')::date from fleetline.sessions s
                        where s.tenant = new.tenant and s.id = new.session), new.day);
  return new;
end $$;
create trigger set_day before insert on fleetline.members for each row execute function fleetline.set_day();

create function fleetline.move_day() returns trigger language plpgsql
  security definer set search_path = pg_catalog, pg_temp as $$
begin
  update fleetline.members set day = (new.updated_at at time zone 'UTC')::date
   where tenant = new.tenant and session = new.id;
  return null;
end $$;
-- Once a day and session; the other updates evaluate the condition only.
create trigger move_day after update on fleetline.sessions for each row
  when ((old.updated_at at time zone 'UTC')::date is distinct from (new.updated_at at time zone 'UTC')::date)
  execute function fleetline.move_day();

-- The session's version grows by more than the row's: if the user is added again, its item in the inbox must be newer than any that it
-- had before.
create function fleetline.count_removal() returns trigger language plpgsql
  security definer set search_path = pg_catalog, pg_temp as $$
begin
  update fleetline.sessions set version = version + old.read_version + 2 where tenant = old.tenant and id = old.session;
  return null;
end $$;
create trigger count_removal after delete on fleetline.members for each row execute function fleetline.count_removal();
