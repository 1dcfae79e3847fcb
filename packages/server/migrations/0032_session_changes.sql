-- pods from: 17
-- Metadata of sessions, and whether they are archived. `members.archived` is a copy, because the inbox searches by it.
alter table fleetline.sessions
  add column metadata jsonb,
  add column archived_at timestamptz;

-- The number of the format of `body`; session/message-format.ts reads every format.
alter table fleetline.messages add column format smallint not null default 1;

-- A new member of an archived session finds it in the archive.
create or replace function fleetline.set_day() returns trigger language plpgsql
  security definer set search_path = pg_catalog, pg_temp as $$
begin
  select (s.updated_at at time zone 'UTC')::date, s.archived_at is not null into new.day, new.archived
    from fleetline.sessions s where s.tenant = new.tenant and s.id = new.session;
  new.day := coalesce(new.day, '-infinity');
  new.archived := coalesce(new.archived, false);
  return new;
end $$;
