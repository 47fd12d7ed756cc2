-- A small shop; change it and watch the mirrors follow: docker compose exec postgres psql -U postgres shop
CREATE SCHEMA shop;
CREATE TABLE shop.customers (id int PRIMARY KEY, name text NOT NULL, email text, since timestamptz NOT NULL DEFAULT now());
CREATE TABLE shop.orders (
    id bigint PRIMARY KEY,
    customer int NOT NULL REFERENCES shop.customers,
    amount numeric(12, 2) NOT NULL,
    note text
);
INSERT INTO shop.customers (id, name, email) SELECT n, 'Customer ' || n, 'c' || n || '@example.test' FROM generate_series(1, 100) n;
INSERT INTO shop.orders SELECT n, 1 + n % 100, n * 1.25, NULL FROM generate_series(1, 1000) n;
