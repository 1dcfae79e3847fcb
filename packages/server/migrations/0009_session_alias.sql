-- What callers name a session, where they would rather not keep its id: theirs to choose, one in a tenant. Most have none.
alter table fleetline.sessions add column alias text;
create unique index sessions_alias on fleetline.sessions (tenant, alias) where alias is not null;
